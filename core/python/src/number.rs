// SPDX-License-Identifier: GPL-3.0-or-later
//! Numbers of Python, which have no size: for `from_py_with`, beside a plain type that keeps its default in the signature.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

/// What Python cannot fit into the type is the greatest or the least there is, which every range refuses.
fn saturated<T>(value: &Bound<'_, PyAny>, read: PyResult<T>, least: T, most: T) -> PyResult<T> {
    match read {
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            Ok(if value.lt(0)? { least } else { most })
        }
        other => other,
    }
}

/// A whole number.
pub fn whole(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    saturated(value, value.extract(), i64::MIN, i64::MAX)
}

/// A whole number, or `None`.
pub fn maybe_whole(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() {
        return Ok(None);
    }
    whole(value).map(Some)
}

/// Two whole numbers.
pub fn two(value: &Bound<'_, PyAny>) -> PyResult<(i64, i64)> {
    let (first, second): (Bound<'_, PyAny>, Bound<'_, PyAny>) = value.extract()?;
    Ok((whole(&first)?, whole(&second)?))
}

/// Any count of whole numbers.
pub fn several(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    value.extract::<Vec<Bound<'_, PyAny>>>()?.iter().map(whole).collect()
}

/// A number; too large is infinite.
pub fn real(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    saturated(value, value.extract(), f64::NEG_INFINITY, f64::INFINITY)
}

/// A number, or `None`.
pub fn maybe_real(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if value.is_none() {
        return Ok(None);
    }
    real(value).map(Some)
}
