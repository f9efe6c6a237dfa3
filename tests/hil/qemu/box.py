# SPDX-License-Identifier: GPL-3.0-or-later
"""Which box it is: how it is reached for calls, how it reaches us."""

from __future__ import annotations

import attr
from labgrid.factory import target_factory
from labgrid.resource.common import Resource


@target_factory.reg_resource
@attr.s(eq=False)
class TelephoneBox(Resource):
    """A box that answers calls.

    `address` is where its SIP and RTP ports are reached from here, and what it says of itself in SDP.
    `tester` is this machine as the box sees it: calls and answers of the model servers come from there.
    `models_port` is where the stand-in model servers listen here; 0 takes a free port at each run, and
    the box is then provisioned anew. `models_bind` is the address they listen on.
    `patience` multiplies every time that a test waits: emulated CPUs are slow.
    """

    address: str = attr.ib(validator=attr.validators.instance_of(str))
    tester: str = attr.ib(validator=attr.validators.instance_of(str))
    sip_port: int = attr.ib(default=5060, validator=attr.validators.instance_of(int))
    models_port: int = attr.ib(default=0, validator=attr.validators.instance_of(int))
    models_bind: str = attr.ib(default="127.0.0.1", validator=attr.validators.instance_of(str))
    patience: float = attr.ib(default=1.0, converter=float)
