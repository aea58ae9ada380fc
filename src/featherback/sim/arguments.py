"""The options of a Simulator as a type, written by tools/write_arguments.py."""

from __future__ import annotations

from typing import Literal, TypedDict


class Arguments(TypedDict, total=False):
    """Numerical options of a Simulator; None stands for the default.

    Attributes:
        contact: 'hard' (the law of this library) or 'mujoco' (MuJoCo's soft law, with the file's
            settings); default 'hard'.
        cone: friction cone under MuJoCo's law: 'pyramidal' or 'elliptic'; by default that of the
            file.
        impratio: ratio of friction to normal impedance under MuJoCo's law; by default that of the
            file.
        integrator: integrator under MuJoCo's law: 'euler', 'rk4' or 'implicitfast'; by default that
            of the file.
        refsafe: 1: time constants of solref are at least two steps under MuJoCo's law; by default
            as in the file.
        eulerdamp: 1: Euler's integrator is implicit in damping under MuJoCo's law; by default as in
            the file.
        warmstart: 1: a state carries the accelerations of the last solve under MuJoCo's law, and
            the next may start there; default 0.
        margin: contact and limit rows are built below this gap [m or rad]; default 0.005.
        v_recover: largest speed of recovery from penetration [m/s]; default 0.5.
        v_rest: approach speed below which restitution is zero [m/s]; default 0.05.
        tolerance: residual of the contact solve, relative to the largest row velocity; default
            1e-10, in float32 0.0001.
        max_sweeps: cap on Gauss-Seidel sweeps in one step; default 200.
        max_contacts: contacts one world can hold, by default at most what the model's pairs can
            give, and 16 for each link where that is more; default 100.
        friction: 'cone' (the true cone) or 'box' (each tangent by itself); default 'cone'.
        solver: 'newton' (sweeps, then Newton steps on the active set), 'pgs' (sweeps only) or
            'interior' (an interior point method, world by world); default 'newton'.
        smoothing: velocity within which the laws of contacts, limits and dry friction are smooth
            [m/s or rad/s]: 0 is the exact law, more has derivatives of every order and takes solver
            'interior'; default 0.0.
        gradient: 'auto' (implicit where the solve finished, unrolled elsewhere), 'implicit' (the
            solution is differentiated) or 'unrolled' (the sweeps are; solver 'pgs' only); default
            'auto'.
    """

    contact: Literal["hard", "mujoco"] | None
    cone: Literal["pyramidal", "elliptic"] | None
    impratio: float | None
    integrator: Literal["euler", "rk4", "implicitfast"] | None
    refsafe: int | None
    eulerdamp: int | None
    warmstart: int | None
    margin: float | None
    v_recover: float | None
    v_rest: float | None
    tolerance: float | None
    max_sweeps: int | None
    max_contacts: int | None
    friction: Literal["cone", "box"] | None
    solver: Literal["newton", "pgs", "interior"] | None
    smoothing: float | None
    gradient: Literal["auto", "implicit", "unrolled"] | None
