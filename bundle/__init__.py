# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as a frozen bundle that needs no Python where it runs: ``just bundle``."""
