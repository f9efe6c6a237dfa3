// SPDX-License-Identifier: GPL-3.0-or-later
//! Checks of what is done to samples: gain control and mixing.

use crate::config::EngineConfig;
use crate::error::ConfigError;
use crate::media::{Delivery, Rate};
use crate::signal::delivery::MAX_CHUNK_MS;
use crate::signal::vad::stock::Stock;

pub(crate) fn validate(config: &EngineConfig) -> Result<(), ConfigError> {
    let (gain, mixer) = (&config.gain, &config.mixer);
    within("gain_target_dbov", gain.target_dbov, -50.0, -10.0, "-26, the nominal level")?;
    within("gain_max_db", gain.max_db, 0.0, 30.0, "18")?;
    within("voice_level_db", mixer.voice_db, -40.0, 20.0, "0, as it comes from the server")?;
    within("background_level_db", mixer.background_db, -40.0, 20.0, "0, as it is in the file")?;
    within("duck_db", mixer.duck_db, -40.0, 0.0, "-12")?;
    check(&config.delivery)?;
    let Some(library) = &config.vad_onnxruntime else { return Ok(()) };
    Stock::load(library, Rate::R8k).map(drop).map_err(|why| {
        let remedy = "name a libonnxruntime.so of 1.24 or later, or leave it to the core's kernel";
        ConfigError::new("vad_onnxruntime", why, remedy)
    })
}

/// Whether audio can be handed over so.
pub(crate) fn check(delivery: &Delivery) -> Result<(), ConfigError> {
    if delivery.valid() {
        return Ok(());
    }
    let problem = format!("{} is not a length of whole frames", delivery.chunk_ms);
    let remedy = format!("use a multiple of 20 from 20 to {MAX_CHUNK_MS}");
    Err(ConfigError::new("chunk_ms", problem, remedy))
}

fn within(
    field: &'static str,
    value: f64,
    low: f64,
    high: f64,
    usual: &str,
) -> Result<(), ConfigError> {
    if value >= low && value <= high {
        return Ok(());
    }
    let remedy = format!("use {low} to {high}, usually {usual}");
    Err(ConfigError::new(field, format!("{value} is out of range"), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_checked() {
        let mut fields = Vec::new();
        for value in [f64::NAN, -100.0, 100.0] {
            for at in 0..5 {
                let mut config = EngineConfig::default();
                *[
                    &mut config.gain.target_dbov,
                    &mut config.gain.max_db,
                    &mut config.mixer.voice_db,
                    &mut config.mixer.background_db,
                    &mut config.mixer.duck_db,
                ][at] = value;
                fields.extend(validate(&config).err().map(|e| e.field));
            }
        }
        let all =
            ["gain_target_dbov", "gain_max_db", "voice_level_db", "background_level_db", "duck_db"];
        assert_eq!(fields, all.repeat(3));
        for chunk_ms in [0, 10, 30, 420] {
            let delivery = Delivery { chunk_ms, ..Delivery::default() };
            let refused = validate(&EngineConfig { delivery, ..Default::default() });
            assert_eq!(refused.err().map(|e| e.field), Some("chunk_ms"));
        }
        let nowhere = Some("/nowhere/libonnxruntime.so".into());
        let refused = validate(&EngineConfig { vad_onnxruntime: nowhere, ..Default::default() });
        assert_eq!(refused.err().map(|e| e.field), Some("vad_onnxruntime"));
        assert!(validate(&EngineConfig::default()).is_ok());
    }
}
