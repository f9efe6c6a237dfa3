# SPDX-License-Identifier: GPL-3.0-or-later
"""Build tools that run before anything is installed: standard library only, Python 3.11 or later."""
