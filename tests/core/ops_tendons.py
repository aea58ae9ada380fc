"""Models with tendons for the op table: fixed, through sites, around geoms."""

from __future__ import annotations

from functools import cache

import featherback as fb

TENDONS = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"/>
    <body pos="0 0 0.3">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="2"/>
      <body pos="0.2 0.1 0"><joint name="a" axis="0 1 0" damping="0.1" actuatorfrcrange="-2 2"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" mass="0.5"/>
        <body pos="0.2 0 0"><joint name="b" axis="0 1 0.2" armature="0.01"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" mass="0.3"/>
          <site name="tip" pos="0.15 0.02 0.03"/>
          <geom size="0.05" pos="0.2 0 -0.2" contype="1" conaffinity="1" mass="0.1"/>
        </body>
      </body>
      <body pos="0.2 -0.1 0"><joint name="c" axis="0 1 0"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" mass="0.4"/>
        <site name="side" pos="0.1 0.01 0.04"/>
      </body>
    </body>
    <body pos="1 0 1"><joint name="d" type="slide" axis="0 0 1"/>
      <geom size="0.1" mass="1"/>
      <site name="weight" pos="-0.05 0.03 0.1"/>
    </body>
    <site name="hook" pos="0.5 0.4 1.2"/>
  </worldbody>
  <tendon>
    <fixed name="chain" stiffness="3" springlength="0.01 0.02" damping="0.4" range="-0.02 0.03">
      <joint joint="b" coef="1"/><joint joint="a" coef="-0.7"/></fixed>
    <fixed name="fork" stiffness="5" frictionloss="0.1">
      <joint joint="a" coef="1"/><joint joint="c" coef="0.8"/></fixed>
    <fixed name="trees" damping="2" range="-0.01 0.02">
      <joint joint="d" coef="2"/><joint joint="c" coef="0.5"/></fixed>
    <fixed name="one"><joint joint="d" coef="0.6"/></fixed>
    <spatial name="rope" stiffness="4" damping="0.3" range="0 1.1" springlength="0.4">
      <site site="tip"/><site site="side"/></spatial>
    <spatial name="tackle" stiffness="2" damping="0.5" frictionloss="0.05">
      <site site="hook"/><site site="weight"/><pulley divisor="2"/>
      <site site="weight"/><site site="hook"/></spatial>
    <spatial name="web" stiffness="3">
      <site site="tip"/><site site="weight"/><pulley divisor="1.5"/>
      <site site="side"/><site site="hook"/></spatial>
  </tendon>
  <equality>
    <tendon tendon1="one" polycoef="0.02 0 0 0 0"/>
    <tendon tendon1="fork" tendon2="chain" polycoef="0.01 0.9 0.4 0.3 0.2"/>
  </equality>
  <actuator>
    <position tendon="fork" kp="20" kv="1" ctrlrange="-1 1" forcerange="-2 2"/>
    <motor tendon="chain" gear="3"/>
    <velocity tendon="one" kv="2" gear="-1.5"/>
    <general tendon="trees" gaintype="affine" gainprm="2 0.5 -0.9" biastype="affine"
             biasprm="1 -3 -0.5" gear="1.5"/>
    <position tendon="web" kp="15" gear="0.8"/>
    <motor joint="a"/>
  </actuator>
</mujoco>
"""


@cache
def tendons_model() -> fb.Model:
    """Return a model whose tendons, fixed and spatial, lie on one branch, two and two trees."""
    return fb.load(TENDONS, name="tendons")


# name -> armature; "web" lies on more branches than the hard law holds
ARMATURE = {"chain": 0.3, "fork": 0.2, "trees": 0.4, "rope": 0.5, "tackle": 0.7}


@cache
def heavy_model() -> fb.Model:
    """Return the same model with armature on its tendons, and a ball that may bounce."""
    xml = TENDONS
    for name, armature in ARMATURE.items():
        xml = xml.replace(f'name="{name}"', f'name="{name}" armature="{armature}"')
    return fb.load(xml, name="heavy")


WRAPS = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"/>
    <body pos="0 0 0.3">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="2"/>
      <site name="back" pos="-0.1 0.02 0.06"/>
      <geom name="hip" type="cylinder" size="0.05 0.1" pos="0.2 0 0.01" euler="80 20 10"
            mass="0.1"/>
      <site name="above" pos="0.2 0.02 0.12"/>
      <body pos="0.2 0 0"><joint name="a" axis="0 1 0" damping="0.1" actuatorfrcrange="-2 2"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" mass="0.5"/>
        <site name="thigh" pos="0.12 0.01 -0.01"/>
        <site name="shin" pos="0.1 0.01 0.08"/>
        <geom name="knee" type="sphere" size="0.04" pos="0.21 0 0.01" mass="0.1"/>
        <site name="cap" pos="0.2 0.005 {cap}"/>
        <body pos="0.2 0 0"><joint name="b" axis="0 1 0.2" armature="0.01"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0" mass="0.3"/>
          <site name="tip" pos="0.12 0.02 0.01"/>
          <site name="toe" pos="0.12 0.02 0.09"/>
          <geom size="0.05" pos="0.2 0 -0.2" contype="1" conaffinity="1" mass="0.1"/>
        </body>
      </body>
    </body>
    <body pos="1 0 1"><joint name="d" type="slide" axis="0 0 1"/>
      <geom size="0.1" mass="1"/>
      <site name="weight" pos="-0.05 0.03 0.1"/>
    </body>
    <geom name="drum" type="cylinder" size="0.15 0.1" pos="0.6 0.2 1.3" euler="95 0 5"/>
    <site name="hook" pos="0.3 0.25 1.1"/>
    <site name="under" pos="0.62 0.2 {under}"/>
  </worldbody>
  <tendon>
    <spatial name="over" stiffness="30" damping="0.4" range="0 0.28" springlength="0.2">
      <site site="back"/><geom geom="hip" sidesite="above"/><site site="thigh"/></spatial>
    <spatial name="bend" stiffness="20" frictionloss="0.1" springlength="0.1">
      <site site="thigh"/><geom geom="knee"/><site site="tip"/></spatial>
    <spatial name="cap" damping="0.3" stiffness="10" springlength="0.1">
      <site site="shin"/><geom geom="knee" sidesite="cap"/><site site="toe"/></spatial>
    <spatial name="tackle" stiffness="9" damping="0.5" frictionloss="0.05">
      <site site="hook"/><geom geom="drum"/><site site="weight"/><pulley divisor="2"/>
      <site site="weight"/><geom geom="drum" sidesite="under"/><site site="hook"/></spatial>
    <spatial name="web" stiffness="3">
      <site site="back"/><geom geom="hip" sidesite="above"/><site site="thigh"/>
      <geom geom="knee"/><site site="tip"/><pulley divisor="1.5"/><site site="tip"/>
      <geom geom="drum"/><site site="hook"/><site site="weight"/></spatial>
  </tendon>
  <equality>
    <tendon tendon1="bend" tendon2="over" polycoef="0.01 0.4 0.4 0.3 0.2"/>
  </equality>
  <actuator>
    <position tendon="over" kp="20" kv="1" ctrlrange="-1 1" forcerange="-2 2"/>
    <motor tendon="bend" gear="3"/>
    <general tendon="tackle" gaintype="affine" gainprm="2 0.5 -0.9" biastype="affine"
             biasprm="1 -3 -0.5" gear="1.5"/>
    <position tendon="cap" kp="15" gear="0.8"/>
    <motor joint="a"/>
  </actuator>
</mujoco>
"""


@cache
def wraps_model() -> fb.Model:
    """Return a model whose tendons go round a sphere and cylinders, some by a side site."""
    return fb.load(WRAPS.format(cap=-0.06, under=1.6), name="wraps")


@cache
def wraps_inside_model() -> fb.Model:
    """Return the same model with two side sites within their geoms."""
    return fb.load(WRAPS.format(cap=0.02, under=1.33), name="wraps_inside")
