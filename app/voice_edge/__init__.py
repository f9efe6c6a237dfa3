# SPDX-License-Identifier: GPL-3.0-or-later
"""The voice agent: settings, call machine, model-server adapters and the service around them."""

__version__ = "0.1.0"
