"""Every element and attribute of MJCF has a meaning: nothing is ignored silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mujoco
import pytest

from featherback.model import schema, unsupported, urdf
from tests.model.unsupported import UNSUPPORTED


def schema_rows() -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield path and attributes of each line of MuJoCo's own schema."""
    path: list[str] = []
    for line in mujoco.mj_printSchema(False, False).splitlines():
        if not line.strip():
            continue
        head, attributes = line[:30], line[30:].split()
        if head.strip():
            indent = (len(head) - len(head.lstrip())) // 3
            tag = "worldbody" if "(world)" in head else head.split("(")[0].strip()
            path = [*path[:indent], tag]
        below_root = tuple(path[1:])
        yield ("worldbody", "body") if below_root == ("worldbody",) else below_root, attributes


def test_every_mjcf_element_and_attribute_is_listed() -> None:
    """Walk MuJoCo's schema and find each element and attribute in our tables."""
    rows = list(schema_rows())
    assert len(rows) > 300
    missing = []
    for path, attributes in rows:
        key = schema.element_key(path)
        if schema.element_meaning(key) is None:
            missing.append(key)
        missing += [f"{key} {a}" for a in attributes if schema.attribute_meaning(key, a) is None]
    assert missing == []


def test_every_refused_or_checked_entry_has_a_case() -> None:
    """Ask for a refused model file for each entry that the tables call refused or checked."""
    entries = {key for key, m in schema.SUBTREES.items() if m in ("refused", "checked")}
    for key, row in schema.ATTRIBUTES.items():
        entries |= {f"{key} {a}" for a, m in row.items() if m in ("refused", "checked")}
    covered = {entry for case in UNSUPPORTED for entry in case.covers}
    generic = {e for e in entries if e.startswith("actuator/") and " " in e}
    # the law and transmission of actuators are checked alike for every tag
    aliases = {e for e in generic if f"actuator/* {e.split()[1]}" in covered}
    assert sorted(entries - covered - aliases) == []


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ((), "mujoco"),
        (("worldbody", "body", "frame", "body", "geom"), "body/geom"),
        (("worldbody", "body", "geom", "plugin", "config"), "body/geom/plugin/config"),
        (("default", "default", "joint"), "body/joint"),
        (("default", "motor"), "actuator/motor"),
        (("default", "mesh"), "asset/mesh"),
        (("default", "pair"), "contact/pair"),
        (("default", "tendon"), "default/tendon"),
        (("default",), "default"),
        (("option", "flag"), "option/flag"),
    ],
)
def test_element_key(path: tuple[str, ...], key: str) -> None:
    """Map a path in the file to its key in the tables."""
    assert schema.element_key(path) == key


def test_urdf_tables_name_what_urdf_defines() -> None:
    """Keep the list of URDF elements that the importer reads."""
    assert {"link", "joint", "inertial", "collision", "mimic", "limit"} <= set(urdf.SUPPORTED)


def test_every_anchor_is_a_heading_of_the_support_page() -> None:
    """Find each anchor that an error message names in docs/support.md."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "support.md").read_text(encoding="utf-8")
    headings = {
        line.lstrip("# ").lower() for line in page.splitlines() if line.startswith(("##", "###"))
    }
    anchors = {case.anchor for case in UNSUPPORTED}
    anchors |= {rule.anchor for rule in unsupported.FIELD_RULES} | {"urdf", "urdf-meshes", "files"}
    assert sorted(anchors - headings) == []
