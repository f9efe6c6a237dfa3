# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of the appliance: which release, when, how it is loaded, and what became of it (docs/updates.md)."""
