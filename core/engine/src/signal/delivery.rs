// SPDX-License-Identifier: GPL-3.0-or-later
//! What of the caller's audio is handed over, and in what portions.

/// Greatest portion that [`Delivery::chunk_ms`] may ask for: so much is kept.
pub const MAX_CHUNK_MS: u32 = 400;

/// What of the caller's audio is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// While the caller speaks, with what came just before.
    #[default]
    Speech,
    /// Every frame from the first SDP on, with or without voice activity.
    Frames,
}

impl What {
    /// By its name in the settings.
    pub fn from_name(name: &str) -> Option<What> {
        match name {
            "speech" => Some(What::Speech),
            "frames" => Some(What::Frames),
            _ => None,
        }
    }

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            What::Speech => "speech",
            What::Frames => "frames",
        }
    }
}

/// The hand-over of a caller's audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What is handed over.
    pub what: What,
    /// Length of a portion, ms: whole frames. All that waits is handed over as soon as it is so
    /// much; speech that ends hands over the rest.
    pub chunk_ms: u32,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery { what: What::Speech, chunk_ms: 20 }
    }
}

impl Delivery {
    /// Whether it can be.
    pub fn valid(&self) -> bool {
        (20..=MAX_CHUNK_MS).contains(&self.chunk_ms) && self.chunk_ms.is_multiple_of(20)
    }
}

/// What of a call's hearing is to change; the rest stays.
#[derive(Debug, Default)]
pub struct Change {
    /// What is handed over.
    pub what: Option<What>,
    /// In what portions, ms.
    pub chunk_ms: Option<u32>,
    /// Whether echoes of the agent count as silence.
    pub echo_guard: Option<bool>,
    /// Whether steady noise is taken out ahead of voice activity and hand-over.
    pub noise_suppression: Option<bool>,
}
