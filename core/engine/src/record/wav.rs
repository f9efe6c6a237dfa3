// SPDX-License-Identifier: GPL-3.0-or-later
//! One recording: a stereo WAV of 16-bit PCM at the call's rate, caller left and agent right.
//!
//! Written as `<name>.part` and renamed when complete. The header is valid after every write:
//! audio goes to disk first and the sizes follow, so a process killed at any moment leaves a file
//! that plays. What could not be written (full disk, slow disk) is a hole at its place in the
//! file, which reads as silence.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::media::Rate;

/// Bytes of the header.
pub const HEADER: u64 = 44;
/// Bytes of one sample of both channels.
pub const SAMPLE: u64 = 4;

/// A WAV being written.
#[derive(Debug)]
pub struct Wav {
    rate: Rate,
    file: File,
    part: PathBuf,
    path: PathBuf,
    /// Bytes of audio so far, written or not.
    position: u64,
    /// End of the last audio written.
    written: u64,
    /// Audio bytes the header on disk tells.
    told: u64,
}

impl Wav {
    /// Creates `<path>.part` with a valid header and no audio.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(path: &Path, rate: Rate) -> io::Result<Wav> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // What callers say is nobody else's to hear.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&part)?;
        if let Err(e) = file.write_all_at(&header(0, rate), 0) {
            // A full disk still makes empty files.
            let _ = std::fs::remove_file(&part);
            return Err(e);
        }
        Ok(Wav { rate, file, part, path: path.to_owned(), position: 0, written: 0, told: 0 })
    }

    /// Appends interleaved audio, little-endian. On an error its place stays silent and later
    /// audio is still where it belongs.
    ///
    /// # Errors
    /// The system's error; the recording may be continued.
    pub fn append(&mut self, audio: &[u8]) -> io::Result<()> {
        let at = self.position;
        let end = at + audio.len() as u64;
        if end > u64::from(u32::MAX) - HEADER {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.position = end;
        self.file.write_all_at(audio, HEADER + at)?;
        self.written = end;
        Ok(())
    }

    /// Appends silence of `samples` samples a channel.
    pub fn append_silence(&mut self, samples: u64) {
        let most = u64::from(u32::MAX) - HEADER;
        self.position = (self.position + samples * SAMPLE).min(most);
    }

    /// Makes the header tell all audio written so far.
    ///
    /// # Errors
    /// The system's error.
    pub fn refresh(&mut self) -> io::Result<()> {
        if self.told != self.written {
            self.file.write_all_at(&header(self.written as u32, self.rate), 0)?;
            self.told = self.written;
        }
        Ok(())
    }

    /// Completes the file and gives it its final name.
    ///
    /// # Errors
    /// The system's error; the `.part` file stays.
    pub fn finish(mut self) -> io::Result<()> {
        if self.position > self.written {
            self.file.set_len(HEADER + self.position)?;
            self.written = self.position;
        }
        self.refresh()?;
        std::fs::rename(&self.part, &self.path)
    }
}

fn header(audio: u32, rate: Rate) -> [u8; HEADER as usize] {
    let mut h = [0; HEADER as usize];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(room) = h.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    let frame = SAMPLE as u16;
    put(b"RIFF");
    put(&(audio.saturating_add(HEADER as u32 - 8)).to_le_bytes());
    put(b"WAVEfmt ");
    put(&16u32.to_le_bytes());
    put(&1u16.to_le_bytes());
    put(&2u16.to_le_bytes());
    put(&rate.hz().to_le_bytes());
    put(&(rate.hz() * u32::from(frame)).to_le_bytes());
    put(&frame.to_le_bytes());
    put(&16u16.to_le_bytes());
    put(b"data");
    put(&audio.to_le_bytes());
    h
}
