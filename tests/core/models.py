"""Models that the tests share; they need nothing but the package itself."""

from __future__ import annotations

from functools import cache

import featherback as fb

TREE = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"/>
    <body pos="0 0 0.4">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="3"/>
      <geom type="sphere" size="0.06" pos="0.1 0.05 -0.3" contype="1" conaffinity="1" mass="0.2"/>
      <body pos="0.2 0.1 0.1" euler="20 30 40">
        <joint type="hinge" axis="1 2 3" pos="0.02 0 0.01" range="-30 40" stiffness="3"
               damping="0.2" springref="10" armature="0.01" frictionloss="0.05" name="a"/>
        <joint type="slide" axis="0 1 1" range="-0.05 0.05" damping="1" name="b"/>
        <geom type="capsule" size="0.03 0.1" mass="0.7" pos="0.01 0.02 0.1"/>
        <body pos="0 0.1 0.2" euler="10 0 70">
          <joint type="ball" pos="0.01 0 -0.02" damping="0.1" name="c"/>
          <geom type="box" size="0.05 0.04 0.1" mass="0.5"/>
          <geom type="sphere" size="0.07" pos="0 0 0.05" contype="1" conaffinity="1" mass="0.1"/>
          <body pos="0.1 0 0"><geom type="sphere" size="0.03" mass="0.3"/></body>
        </body>
      </body>
    </body>
    <body pos="1 0 0.2">
      <joint type="slide" axis="0 0 1" name="d"/>
      <joint type="hinge" axis="0 1 0" name="e" damping="0.3"/>
      <geom type="sphere" size="0.1" pos="0.05 0 -0.1" contype="1" conaffinity="1" mass="1"/>
    </body>
  </worldbody>
  <actuator>
    <position joint="a" kp="20" kv="1" ctrlrange="-1 1" forcerange="-4 4"/>
    <motor joint="b" gear="3"/>
    <velocity joint="e" kv="2"/>
    <general joint="d" gaintype="affine" gainprm="2 0.5 -0.4" biastype="affine"
             biasprm="1 -3 -0.5" gear="1.5"/>
  </actuator>
</mujoco>
"""


@cache
def tree_model() -> fb.Model:
    """Return a model with every joint type, springs, limits, friction and servos over a plane."""
    return fb.load(TREE, name="tree")


LOOP = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"/>
    <body name="held" mocap="true" pos="0.9 0.1 0.75"/>
    <body name="a" pos="0 0 1">
      <joint name="ball" type="ball" range="0 50" stiffness="4" damping="0.2"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0" mass="1"/>
      <body name="b" pos="0.4 0 0">
        <joint name="h1" axis="0 1 0.2" stiffness="1"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0 0.3 -0.3" mass="0.6"/>
        <body name="c" pos="0 0.3 -0.3">
          <joint name="h2" axis="1 0 0"/>
          <geom type="box" size="0.1 0.05 0.04" pos="0.1 0 0" mass="0.5"/>
        </body>
      </body>
    </body>
    <body name="d" pos="0.9 0.1 0.7">
      <freejoint name="root"/>
      <geom type="sphere" size="0.06" contype="1" conaffinity="1" mass="0.8"/>
      <body name="e" pos="0.1 0 0">
        <joint name="s1" type="slide" axis="1 1 0"/>
        <geom type="sphere" size="0.05" mass="0.3"/>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect body1="c" body2="d" anchor="0.2 0.02 0.01"/>
    <weld body1="d" body2="held" relpose="0 0 0.05 1 0.1 0.05 0"/>
    <joint joint1="h2" joint2="h1" polycoef="0.05 0.8 0.1 -0.2 0.05"/>
    <joint joint1="s1" polycoef="0.02 0 0 0 0"/>
  </equality>
  <actuator>
    <general joint="ball" gear="1 0.5 -0.3" gaintype="affine" gainprm="2 0.3 -0.1"
             biastype="affine" biasprm="0.4 -1 -0.2"/>
    <general joint="root" gear="1 0 0.5 0.2 0 0.3" biastype="affine" biasprm="0.1 0 -0.3"/>
    <position joint="h1" kp="3" forcerange="-2 2"/>
  </actuator>
</mujoco>
"""


@cache
def loop_model() -> fb.Model:
    """Return a model with every equality, a limited and sprung ball, and servos on both."""
    return fb.load(LOOP, name="loop")


LIMITS = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"
          priority="1"/>
    <body name="a" pos="0 0 0.5">
      <joint name="ball" type="ball" range="0 2" stiffness="4" damping="0.2"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0.1 0" mass="0.8"/>
      <body name="b" pos="0.3 0.1 0">
        <joint name="hinge" axis="0.2 1 0" actuatorfrcrange="-0.3 0.25" springref="5"
               stiffness="2" frictionloss="0.02" damping="0.1"/>
        <geom name="led" type="sphere" size="0.06" pos="0.1 0 -0.43" mass="0.4" contype="1"
              conaffinity="1" friction="0.9"/>
      </body>
    </body>
    <body name="c" pos="0.4 0.3 0.5">
      <freejoint name="root"/>
      <geom name="own" type="sphere" size="0.05" pos="0 0 -0.45" mass="0.6" friction="0.3"/>
      <site name="grip" pos="0 0 0.02" euler="0 40 10"/>
      <body name="d" pos="0 -0.2 0">
        <joint name="slide" type="slide" axis="0 1 1" actuatorfrcrange="-0.2 0.5"/>
        <geom type="box" size="0.05 0.04 0.03" mass="0.5"/>
        <site name="end" pos="0.05 0 0"/>
      </body>
    </body>
    <body name="e" pos="0.5 0.3 0.6">
      <freejoint/>
      <geom name="leads" type="sphere" size="0.05" pos="0.2 0.1 -0.55" mass="0.6" contype="1"
            conaffinity="1" friction="0.3" priority="2"/>
      <site name="tip" pos="-0.1 0 -0.08" euler="10 20 30"/>
    </body>
    <body name="f" pos="0.45 0.1 0.55">
      <joint name="turn" axis="0 0.1 1" pos="0 0.1 0" range="-3 3"/>
      <joint name="lift" type="slide" axis="0 0 1"/>
      <joint name="tilt" axis="1 0 0"/>
      <geom type="box" size="0.06 0.05 0.04" pos="0.02 0.01 0" mass="0.7"/>
      <site name="hook" pos="0 0 -0.05" euler="5 0 0"/>
    </body>
  </worldbody>
  <contact>
    <pair geom1="floor" geom2="own" friction="0.4 0.4"/>
  </contact>
  <equality>
    <connect site1="tip" site2="grip"/>
    <weld site1="hook" site2="end"/>
  </equality>
  <actuator>
    <motor joint="hinge" gear="2" ctrlrange="-0.2 0.2"/>
    <position joint="hinge" kp="3" kv="0.2"/>
    <general joint="slide" gaintype="affine" gainprm="1 0.3 0.2" biastype="affine"
             biasprm="0.05 -1 -0.4" forcerange="-0.15 0.1" gear="1.5"/>
    <general joint="slide" gaintype="affine" gainprm="1 -0.3 0.1" ctrlrange="-0.1 0.15"/>
    <motor joint="lift" gear="-1" forcerange="-0.1 0.2"/>
  </actuator>
</mujoco>
"""


@cache
def limits_model() -> fb.Model:
    """Return a model at its limits: of angle, force and control; with sites and all frictions."""
    return fb.load(LIMITS, name="limits")


PILE = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="0.5" conaffinity="7"/>
    <geom type="box" size="0.05 0.3 0.3" pos="-1 0 0.4" euler="5 10 0" contype="8" conaffinity="8"/>
    <body name="crate" pos="0 0 0.26" euler="30 40 0">
      <freejoint/>
      <geom type="box" size="0.2 0.15 0.1" mass="2" friction="0.7"/>
      <geom type="capsule" size="0.03" fromto="0.25 -0.2 0.1 0.25 0.2 0.1" mass="0.3" contype="4"
            conaffinity="4"/>
    </body>
    <body name="ball" pos="-0.05 0.06 0.43">
      <freejoint/>
      <geom type="sphere" size="0.06" mass="0.5" friction="0.4"/>
    </body>
    <body name="egg" pos="-0.03 0.05 0.55">
      <freejoint/>
      <geom type="sphere" size="0.05" pos="0.01 0 0.01" mass="0.3" friction="0.3"/>
    </body>
    <body name="mast" pos="0.6 0 0.3">
      <joint type="slide" axis="0 0 1" damping="0.5"/>
      <joint axis="0 1 0.3" stiffness="2"/>
      <geom type="capsule" size="0.04" fromto="-0.25 0.02 0.02 0.1 -0.02 0" mass="0.6" contype="4"
            conaffinity="4"/>
      <body pos="0.1 0 0">
        <joint axis="1 0 0"/>
        <geom type="ellipsoid" size="0.06 0.04 0.05" pos="0 0.05 -0.24" mass="0.4" contype="2"
              conaffinity="0"/>
      </body>
    </body>
    <body name="stray" pos="-0.85 0.05 0.5">
      <freejoint/>
      <geom type="sphere" size="0.1" mass="0.4" friction="0.8" contype="8" conaffinity="8"/>
    </body>
  </worldbody>
  <keyframe><key name="start"/></keyframe>
</mujoco>
"""


@cache
def pile_model() -> fb.Model:
    """Return a model whose trees touch each other as well as the floor."""
    return fb.load(PILE, name="pile")


MESH = """
<mujoco>
  <option timestep="0.004"/>
  <asset><mesh name="m" scale="0.9 1.1 1.2" vertex="0.1 0 -0.1 -0.1 0.05 -0.12 -0.08 -0.1 -0.11
    0.02 0.13 -0.09 0.05 -0.04 0.1 -0.03 0.02 0.14"/></asset>
  <worldbody>
    <geom type="plane" size="5 5 1" friction="0.6"/>
    <site pos="0.1 0.2 0.3" euler="5 0 0"/>
    <body pos="-1 0 0.2" euler="0 10 20">
      <geom type="sphere" size="0.1" mass="2" contype="0" conaffinity="0"/>
      <site pos="0.1 0.2 0.3"/>
    </body>
    <body pos="0 0 0.12">
      <freejoint/>
      <geom type="mesh" mesh="m" mass="2" pos="0.01 0.02 0" euler="3 2 40"/>
      <body pos="0 0 0.2">
        <joint axis="0 1 0" damping="0.1" armature="0.01"/>
        <geom type="mesh" mesh="m" mass="0.3" contype="0" conaffinity="0"/>
        <site pos="0 0.1 0" euler="10 20 30"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@cache
def mesh_model() -> fb.Model:
    """Return a mesh over a plane with a second one on a hinge, sites, and a fixed body."""
    return fb.load(MESH, name="mesh")


ACTIVATION = """
<mujoco>
  <option timestep="0.004" actuatorgroupdisable="5"><flag constraint="disable"/></option>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="ball" type="ball" damping="0.2"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0.1 0" mass="0.8"/>
      <body pos="0.3 0.1 0">
        <joint name="a" axis="0.2 1 0" actuatorfrcrange="-0.6 0.5" stiffness="2" damping="0.1"/>
        <joint name="b" type="slide" axis="0 1 1" armature="0.01"/>
        <geom type="sphere" size="0.06" pos="0.1 0 -0.4" mass="0.4"/>
        <body pos="0 0.2 0">
          <joint name="c" axis="1 0 0"/>
          <joint name="d" axis="0 0 1"/>
          <geom type="box" size="0.05 0.04 0.1" mass="0.5"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="a" gear="2"/>
    <intvelocity joint="a" kp="3" kv="0.2" actrange="-0.2 0.3" ctrlrange="-0.5 0.5"/>
    <general joint="b" dyntype="integrator" gainprm="2" actearly="true" forcerange="-0.7 0.6"/>
    <general joint="b" dyntype="integrator" group="5" actlimited="true" actrange="-0.1 0.2"/>
    <position joint="c" kp="4" kv="0.3" timeconst="0.02" ctrlrange="-0.4 0.3"/>
    <general joint="c" dyntype="filter" dynprm="0.05" gaintype="affine" gainprm="2 0.3 -1"
             biastype="affine" biasprm="0.1 -1 -2" gear="1.5"/>
    <general joint="c" dyntype="filter" dynprm="0.03" gaintype="affine" gainprm="1 -0.2 0.5"
             biastype="affine" biasprm="0 0 -3" actearly="true"/>
    <velocity joint="d" kv="2"/>
    <general joint="d" dyntype="filterexact" dynprm="0.01" gainprm="3" actearly="true"
             actlimited="true" actrange="-0.15 0.2"/>
    <general joint="ball" gear="1 0.5 -0.3" dyntype="filter" dynprm="0.1" biastype="affine"
             biasprm="0.2 -1 0"/>
    <cylinder joint="b" timeconst="0.2" area="2" bias="0.1 -1 -0.5"/>
  </actuator>
  <keyframe><key name="wound" act="0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9"/></keyframe>
</mujoco>
"""


@cache
def activation_model() -> fb.Model:
    """Return a model with every activation dynamics: early or late, limited, held, on each joint.

    Nothing touches anything, and no actuator pushes along with its velocity: MuJoCo's implicitfast
    takes the same step.
    """
    return fb.load(ACTIVATION, name="activation")


def _crowd() -> str:
    """Return a table on eighteen feet, and an arm with dry friction tied to a box beside it."""
    feet = "".join(
        f'<geom size="0.03" pos="{0.2 * (i % 6) - 0.5:g} {0.3 * (i // 6) - 0.3:g} -0.2" mass="0.1" '
        f'friction="{0.3 + 0.05 * i:g}"/>'
        for i in range(18)
    )
    return f"""
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body name="table" pos="0 0 0.228">
      <freejoint/><geom type="box" size="0.6 0.45 0.02" mass="4" contype="0" conaffinity="0"/>{feet}
      <body name="arm" pos="0 0 0.05">
        <joint axis="0 1 0" range="-20 0.5" limited="true" frictionloss="0.1"/>
        <geom size="0.02" fromto="0 0 0 0.3 0 0" type="capsule" mass="0.3" contype="0"
          conaffinity="0"/>
      </body>
    </body>
    <body name="box" pos="0.9 0 0.099"><freejoint/>
      <geom type="box" size="0.1 0.1 0.1" mass="2" friction="0.5"/></body>
  </worldbody>
  <equality><connect body1="arm" body2="box" anchor="0.3 0 0"/></equality>
  <keyframe><key name="stand"/></keyframe>
</mujoco>"""


@cache
def crowd_model() -> fb.Model:
    """Return a model of so many rows that it is solved in its dofs."""
    return fb.load(_crowd(), name="crowd")


HITS = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="1" friction="0.4 0 0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="0" friction="0.3 0 0"/>
    <body pos="0 0 0.063"><freejoint/>
      <geom type="capsule" size="0.05" fromto="-0.1 0 0 0.1 0.02 0" mass="0.8"/>
    </body>
    <body pos="0.5 0 0.3">
      <joint name="a" axis="0.1 1 0" damping="0.1" armature="0.01" frictionloss="0.05"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" mass="0.6" conaffinity="0"/>
      <body pos="0.3 0 0">
        <joint name="b" axis="0 1 0" range="-40 1" stiffness="2" damping="0.05"/>
        <geom size="0.04" pos="0.01 0 -0.25" mass="0.4"/>
      </body>
    </body>
    <body pos="2 0 1">
      <joint name="c" type="slide" axis="0 0 1" armature="0.1"/>
      <geom size="0.05" mass="0.3" conaffinity="0"/>
    </body>
  </worldbody>
  <equality><joint joint1="c" joint2="a" polycoef="0 0.5 0.1 0 0"/></equality>
  <actuator>
    <motor joint="a" gear="2"/>
    <position joint="b" kp="4" kv="0.3" timeconst="0.02"/>
    <general joint="c" dyntype="integrator" gainprm="2" actearly="true"/>
  </actuator>
</mujoco>
"""


@cache
def hits_model() -> fb.Model:
    """Return a falling capsule, and an arm with all that joints have, both about to hit."""
    return fb.load(HITS, name="hits")


@cache
def laikago() -> fb.Model:
    """Return the Laikago."""
    return fb.models.laikago()
