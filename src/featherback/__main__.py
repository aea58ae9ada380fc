"""Run the command line as `python -m featherback`."""

from featherback.cli.main import main

if __name__ == "__main__":
    main()
