"""Small model files that together use every supported element, as a start for mutation."""

from __future__ import annotations

from dataclasses import dataclass, field

CUBE_OBJ = "\n".join(
    [f"v {x} {y} {z}" for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
    + ["f 1 2 4", "f 1 4 3", "f 5 7 8", "f 5 8 6", "f 1 5 6", "f 1 6 2"]
    + ["f 3 4 8", "f 3 8 7", "f 1 3 7", "f 1 7 5", "f 2 6 8", "f 2 8 4"]
).encode()


@dataclass(frozen=True)
class Seed:
    """One file to start from, and the files it refers to."""

    name: str
    format: str
    text: str
    files: dict[str, bytes] = field(default_factory=dict)


JOINTS = """<mujoco model="joints">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002" gravity="0 0 -9.81" integrator="Euler" cone="elliptic"/>
  <default>
    <joint damping="0.1" armature="0.01"/>
    <default class="stiff"><joint stiffness="5" springref="0.2" frictionloss="0.1"/></default>
  </default>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="eye" pos="1 1 1"/>
    <body name="base" pos="0 0 1" quat="1 0 0 0">
      <freejoint name="root"/>
      <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
      <site name="imu" pos="0 0 0.1"/>
      <body name="arm" pos="0.2 0 0" euler="0 0.1 0">
        <joint name="shoulder" type="ball" range="0 1.5" damping="0.2"/>
        <inertial pos="0.1 0 0" mass="0.5" fullinertia="0.01 0.02 0.02 0.001 0 0"/>
        <body name="hand" pos="0.2 0 0" axisangle="0 0 1 0.3" childclass="stiff">
          <joint name="slide" type="slide" axis="1 0 0" range="-0.1 0.1"/>
          <joint name="wrist" type="hinge" axis="0 1 0" pos="0 0 0.01" range="-1 1" ref="0"/>
          <joint name="twist" type="hinge" axis="0 0 1"/>
          <inertial pos="0 0 0" mass="0.3" diaginertia="0.001 0.001 0.001"/>
        </body>
      </body>
    </body>
    <body name="target" mocap="true" pos="0 0 2"/>
    <body name="cart">
      <joint name="rail" type="slide" axis="1 0 0" class="stiff"/>
      <geom type="box" size="0.1 0.1 0.1" mass="1" contype="0" conaffinity="0"/>
      <body name="pole"><joint name="pin" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.02" density="500" contype="0"
          conaffinity="0"/></body>
    </body>
  </worldbody>
  <equality>
    <connect name="c" body1="base" body2="cart" anchor="0 0 0"/>
    <weld name="w" body1="target" body2="base"/>
    <joint name="j" joint1="wrist" joint2="twist" polycoef="0 1 0 0 0"/>
  </equality>
  <actuator>
    <motor name="m" joint="pin" gear="2" ctrlrange="-1 1"/>
    <position name="p" joint="wrist" kp="10" kv="1" forcerange="-5 5"/>
    <velocity name="v" joint="rail" kv="2"/>
    <general name="g" joint="slide" gaintype="affine" gainprm="1 0.1 0.1" biastype="affine"
      biasprm="0 -1 -0.1"/>
  </actuator>
  <keyframe><key name="home" qpos="0 0 1 1 0 0 0 1 0 0 0 0 0 0 0 0" ctrl="0 0 0 0"/></keyframe>
</mujoco>
"""

SHAPES = """<mujoco model="shapes">
  <compiler angle="degree"/>
  <option timestep="0.005"/>
  <size memory="1M"/>
  <visual><global offwidth="640"/></visual>
  <statistic extent="1"/>
  <asset>
    <texture name="t" type="2d" builtin="checker" width="8" height="8" rgb1="0 0 0" rgb2="1 1 1"/>
    <material name="grid" texture="t" rgba="1 1 1 1"/>
    <mesh name="wedge" vertex="0 0 0 0.2 0 0 0 0.2 0 0 0 0.2 0.2 0.2 0.1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" material="grid" friction="0.8 0.005 0.0001"/>
    <body name="ball" pos="0 0 0.2"><freejoint/>
      <geom name="ball" type="sphere" size="0.1" condim="1" margin="0.001"/></body>
    <body name="pill" pos="0 0 0.5" euler="0 90 0"><joint type="free"/>
      <geom name="pill" type="capsule" size="0.05 0.1" solref="0.02 1" solimp="0.9 0.95 0.001"/>
    </body>
    <body name="crate" pos="0 0 0.8"><freejoint/>
      <geom name="crate" type="box" size="0.1 0.1 0.1" mass="1" friction="0.5"/></body>
    <body name="can" pos="1 0 0.2"><freejoint/>
      <geom name="can" type="cylinder" size="0.1 0.1" contype="2" conaffinity="1"/></body>
    <body name="egg" pos="2 0 0.2"><freejoint/>
      <geom name="egg" type="ellipsoid" size="0.1 0.1 0.2" contype="2" conaffinity="1"/></body>
    <body name="cheese" pos="3 0 0.2"><freejoint/>
      <geom name="cheese" type="mesh" mesh="wedge" contype="2" conaffinity="1"/></body>
  </worldbody>
  <contact>
    <exclude name="x" body1="ball" body2="pill"/>
    <pair name="p" geom1="ball" geom2="crate" friction="1 1 0.005 0.0001 0.0001" condim="3"/>
  </contact>
  <sensor><framepos objtype="body" objname="ball"/></sensor>
  <custom><numeric name="n" data="1 2"/><text name="s" data="words"/></custom>
</mujoco>
"""

MESH_FILE = """<mujoco model="mesh">
  <asset><mesh name="cube" file="cube.obj" scale="1 1 1"/></asset>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 0.3"><freejoint/><geom type="mesh" mesh="cube" density="1000"/></body>
  </worldbody>
</mujoco>
"""

ARM_URDF = """<?xml version="1.0"?>
<robot name="arm">
  <material name="grey"><color rgba="0.5 0.5 0.5 1"/></material>
  <link name="base">
    <inertial><origin xyz="0 0 0" rpy="0 0 0"/><mass value="3"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
    <visual><geometry><box size="0.2 0.2 0.1"/></geometry><material name="grey"/></visual>
    <collision><origin xyz="0 0 0"/><geometry><box size="0.2 0.2 0.1"/></geometry></collision>
  </link>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1"/><mass value="1"/>
      <inertia ixx="0.01" ixy="0.001" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
    <collision><geometry><sphere radius="0.05"/></geometry></collision>
  </link>
  <link name="slider">
    <inertial><mass value="0.5"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
  </link>
  <link name="wheel">
    <inertial><mass value="0.2"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial>
  </link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/><origin xyz="0 0 0.1" rpy="0 0 0.1"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="5"/>
    <dynamics damping="0.1" friction="0.01"/>
  </joint>
  <joint name="lift" type="prismatic">
    <parent link="upper"/><child link="slider"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="0.2" effort="10" velocity="1"/>
    <mimic joint="shoulder" multiplier="0.5" offset="0"/>
  </joint>
  <joint name="spin" type="continuous">
    <parent link="slider"/><child link="wheel"/><axis xyz="1 0 0"/>
  </joint>
  <joint name="tip" type="fixed"><parent link="wheel"/><child link="tool"/></joint>
  <transmission name="t"><type>SimpleTransmission</type><joint name="shoulder"/></transmission>
</robot>
"""

MESH_URDF = """<robot name="crate">
  <link name="crate">
    <inertial><mass value="1"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
    <collision><geometry><mesh filename="cube.obj" scale="1 1 1"/></geometry></collision>
  </link>
  <link name="lid">
    <inertial><mass value="0.1"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial>
    <collision><geometry><cylinder radius="0.1" length="0.05"/></geometry></collision>
  </link>
  <joint name="hinge" type="revolute"><parent link="crate"/><child link="lid"/>
    <origin xyz="0 0 0.2"/><axis xyz="1 0 0"/>
    <limit lower="0" upper="1.5" effort="1" velocity="1"/></joint>
</robot>
"""


def inline_seeds() -> list[Seed]:
    """Return the files written here."""
    return [
        Seed("joints", "mjcf", JOINTS),
        Seed("shapes", "mjcf", SHAPES),
        Seed("mesh_file", "mjcf", MESH_FILE, {"cube.obj": CUBE_OBJ}),
        Seed("arm", "urdf", ARM_URDF),
        Seed("mesh_urdf", "urdf", MESH_URDF, {"cube.obj": CUBE_OBJ}),
    ]


def model_seeds() -> list[Seed]:
    """Return the text of featherback's own models."""
    from featherback import models

    texts = {
        "laikago": models.laikago_xml(),
        "quadruped": models.quadruped_xml(),
        "chain": models.chain_xml(4, ground=True, motors=True),
        "pendulum": models.pendulum_xml(2),
        "ball": models.ball_xml(),
        "box": models.box_xml(),
        "cartpole": models.cartpole_xml(),
    }
    return [Seed(name, "mjcf", text) for name, text in texts.items()]


def all_seeds() -> list[Seed]:
    """Return every seed; the inline ones three times, since they use the most elements."""
    return inline_seeds() * 3 + model_seeds()
