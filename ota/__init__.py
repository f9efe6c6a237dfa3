# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed A/B updates by RAUC: what a box is told, what a release is packed into, and keys for tests."""
