// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes the weights of the voice-activity network out of `silero_vad.onnx` at build time.
//!
//! The file's graph chooses between two networks with one `If` on the sample rate: 16 kHz in its
//! `then_branch`, 8 kHz in its `else_branch`. The weights are `Constant` nodes of those branches.
//! They are written as one flat little-endian f32 file, the 8 kHz tensors first, each network in
//! the order of [`tensors`] and each tensor in the layout that PyTorch gave it; `signal::vad`
//! includes that file. ONNX needs no library here: the few protobuf messages are read by hand
//! (field numbers from onnx.proto3).

use std::path::{Path, PathBuf};
use std::process::Command;

/// The one file that these weights may come from; `third_party.toml` pins the same.
const SHA256: &str = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3";

/// Names and shapes of one network's tensors; `fft` is the length of its STFT window.
pub fn tensors(fft: usize) -> [(&'static str, Vec<usize>); 15] {
    let bins = fft / 2 + 1;
    [
        ("stft.forward_basis_buffer", vec![2 * bins, 1, fft]),
        ("encoder.0.reparam_conv.weight", vec![128, bins, 3]),
        ("encoder.0.reparam_conv.bias", vec![128]),
        ("encoder.1.reparam_conv.weight", vec![64, 128, 3]),
        ("encoder.1.reparam_conv.bias", vec![64]),
        ("encoder.2.reparam_conv.weight", vec![64, 64, 3]),
        ("encoder.2.reparam_conv.bias", vec![64]),
        ("encoder.3.reparam_conv.weight", vec![128, 64, 3]),
        ("encoder.3.reparam_conv.bias", vec![128]),
        ("decoder.rnn.weight_ih", vec![512, 128]),
        ("decoder.rnn.weight_hh", vec![512, 128]),
        ("decoder.rnn.bias_ih", vec![512]),
        ("decoder.rnn.bias_hh", vec![512]),
        ("decoder.decoder.2.weight", vec![1, 128, 1]),
        ("decoder.decoder.2.bias", vec![1]),
    ]
}

/// Writes `silero_vad.f32` into `out_dir` and tells cargo what it depends on. The model is the
/// file named by `VC_SILERO_ONNX`, else the one that `tools.fetch` finds.
pub fn build(out_dir: &Path) -> Result<(), String> {
    println!("cargo::rerun-if-changed=vad_weights.rs");
    println!("cargo::rerun-if-env-changed=VC_SILERO_ONNX");
    let model = match std::env::var_os("VC_SILERO_ONNX") {
        Some(path) => PathBuf::from(path),
        None => fetch()?,
    };
    println!("cargo::rerun-if-changed={}", model.display());
    let onnx = std::fs::read(&model).map_err(|e| format!("{}: {e}", model.display()))?;
    let weights = extract(&onnx).map_err(|e| format!("{}: {e}", model.display()))?;
    // For the back end that runs the file as it is.
    let whole = out_dir.join("silero_vad.onnx");
    std::fs::write(&whole, &onnx).map_err(|e| format!("{}: {e}", whole.display()))?;
    let out = out_dir.join("silero_vad.f32");
    std::fs::write(&out, weights).map_err(|e| format!("{}: {e}", out.display()))
}

fn fetch() -> Result<PathBuf, String> {
    let remedy = "set VC_SILERO_ONNX to the path of silero_vad.onnx";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = Command::new("python3")
        .args(["-m", "tools.fetch", "silero_vad"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("python3 -m tools.fetch silero_vad: {e}; {remedy}"))?;
    if !run.status.success() {
        let why = String::from_utf8_lossy(&run.stderr);
        return Err(format!("python3 -m tools.fetch silero_vad failed: {}; {remedy}", why.trim()));
    }
    let printed = String::from_utf8_lossy(&run.stdout);
    match printed.lines().last() {
        Some(path) => Ok(PathBuf::from(path.trim())),
        None => Err(format!("python3 -m tools.fetch silero_vad printed no path; {remedy}")),
    }
}

/// The flat weight file of both networks, from the content of the pinned ONNX file.
pub fn extract(onnx: &[u8]) -> Result<Vec<u8>, String> {
    let found = sha256(onnx);
    if found != SHA256 {
        return Err(format!(
            "not the silero_vad.onnx this kernel was written for: sha256 is {found}, must be {SHA256}"
        ));
    }
    read_model(onnx)
}

/// [`extract`] without the check of the digest: shapes are checked all the same.
pub fn read_model(onnx: &[u8]) -> Result<Vec<u8>, String> {
    let graph = message(onnx, 7)?.ok_or("the model has no graph")?;
    let choice = nodes(graph, "If")?;
    let [choice] = choice[..] else {
        return Err(format!("expected one If node in the graph, found {}", choice.len()));
    };
    let mut weights = Vec::new();
    for (branch, fft) in [("else_branch", 128), ("then_branch", 256)] {
        let subgraph =
            attribute(choice, branch, 6)?.ok_or(format!("the If node has no {branch}"))?;
        let constants = constants(subgraph)?;
        for (name, shape) in tensors(fft) {
            let tensor = constants
                .iter()
                .find(|(output, _)| output.strip_suffix(name).is_some_and(|s| s.ends_with("__")))
                .ok_or(format!("{branch} has no constant {name}"))?;
            weights.extend_from_slice(
                floats(tensor.1, &shape).map_err(|e| format!("{branch}, {name}: {e}"))?,
            );
        }
    }
    Ok(weights)
}

/// The `Constant` nodes of a graph: name of the output and the TensorProto of the value.
fn constants(graph: &[u8]) -> Result<Vec<(&str, &[u8])>, String> {
    let mut found = Vec::new();
    for node in nodes(graph, "Constant")? {
        let output = message(node, 2)?.ok_or("a Constant node has no output")?;
        let output = std::str::from_utf8(output).map_err(|e| e.to_string())?;
        if let Some(tensor) = attribute(node, "value", 5)? {
            found.push((output, tensor));
        }
    }
    Ok(found)
}

/// The nodes (GraphProto field 1) of type `op_type` (NodeProto field 4).
fn nodes<'a>(graph: &'a [u8], op_type: &str) -> Result<Vec<&'a [u8]>, String> {
    let mut found = Vec::new();
    for field in Fields(graph) {
        if let (1, Value::Bytes(node)) = field? {
            if message(node, 4)? == Some(op_type.as_bytes()) {
                found.push(node);
            }
        }
    }
    Ok(found)
}

/// Content of the attribute `name` of a node (NodeProto field 5): a graph (AttributeProto field 6)
/// or a tensor (5).
fn attribute<'a>(node: &'a [u8], name: &str, kind: u64) -> Result<Option<&'a [u8]>, String> {
    for field in Fields(node) {
        if let (5, Value::Bytes(attribute)) = field? {
            if message(attribute, 1)? == Some(name.as_bytes()) {
                return message(attribute, kind);
            }
        }
    }
    Ok(None)
}

/// The raw little-endian data of a TensorProto, which must be f32 and of this shape.
fn floats<'a>(tensor: &'a [u8], shape: &[usize]) -> Result<&'a [u8], String> {
    const FLOAT: u64 = 1;
    let (mut dims, mut data_type, mut raw) = (Vec::new(), 0, &[][..]);
    for field in Fields(tensor) {
        match field? {
            (1, Value::Varint(dim)) => dims.push(dim),
            (1, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    dims.push(varint(&mut packed)?);
                }
            }
            (2, Value::Varint(t)) => data_type = t,
            (9, Value::Bytes(data)) => raw = data,
            _ => {}
        }
    }
    if data_type != FLOAT || !dims.iter().copied().eq(shape.iter().map(|&n| n as u64)) {
        return Err(format!("type {data_type}, shape {dims:?}; must be f32 (type 1), {shape:?}"));
    }
    let expected = shape.iter().product::<usize>() * 4;
    if raw.len() != expected {
        return Err(format!("{} bytes of raw data, must be {expected}", raw.len()));
    }
    Ok(raw)
}

/// The first length-delimited field with this number.
fn message(buf: &[u8], number: u64) -> Result<Option<&[u8]>, String> {
    for field in Fields(buf) {
        match field? {
            (n, Value::Bytes(content)) if n == number => return Ok(Some(content)),
            _ => {}
        }
    }
    Ok(None)
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// The fields of one protobuf message: number and value.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(&mut self.0);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn field<'a>(buf: &mut &'a [u8]) -> Result<(u64, Value<'a>), String> {
    let tag = varint(buf)?;
    let value = match tag & 7 {
        0 => Value::Varint(varint(buf)?),
        1 => take(buf, 8).map(|_| Value::Fixed)?,
        2 => {
            let length = varint(buf)?;
            Value::Bytes(take(buf, usize::try_from(length).map_err(|e| e.to_string())?)?)
        }
        5 => take(buf, 4).map(|_| Value::Fixed)?,
        wire => return Err(format!("not an ONNX file: protobuf wire type {wire}")),
    };
    Ok((tag >> 3, value))
}

fn varint(buf: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(buf, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("not an ONNX file: protobuf integer of more than 64 bits".into())
}

fn take<'a>(buf: &mut &'a [u8], n: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = buf.split_at_checked(n).ok_or("truncated: a protobuf field is cut off")?;
    *buf = rest;
    Ok(taken)
}

/// SHA-256 (FIPS 180-4) in hexadecimal. Here so that the build needs no crate for one digest.
pub fn sha256(data: &[u8]) -> String {
    // The first 64 primes give the constants: fractional parts of their cube and square roots.
    let primes: Vec<u32> = (2u32..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    let fraction = |root: u128| (root & 0xffff_ffff) as u32;
    let k: Vec<u32> = primes.iter().map(|&p| fraction(root(u128::from(p) << 96, 3))).collect();
    let mut state = [0u32; 8];
    for (word, &p) in state.iter_mut().zip(&primes) {
        *word = fraction(root(u128::from(p) << 64, 2));
    }

    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - data.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let length = padded.len() - 8;
    padded[length..].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());

    for block in padded.chunks_exact(64) {
        let mut w = [0u32; 64];
        for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for t in 16..64 {
            let (a, b) = (w[t - 15], w[t - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w[t] = s1.wrapping_add(w[t - 7]).wrapping_add(s0).wrapping_add(w[t - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for t in 0..64 {
            let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choose = (e & f) ^ (!e & g);
            let t1 = [sum1, choose, k[t], w[t]].iter().fold(h, |x, y| x.wrapping_add(*y));
            let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            let t2 = sum0.wrapping_add(majority);
            (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
            (d, c, b, a) = (c, b, a, t1.wrapping_add(t2));
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(add);
        }
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// Integer root: the largest r with r to the power `degree` not above x.
fn root(x: u128, degree: u32) -> u128 {
    (0..40).rev().fold(0, |r: u128, bit| {
        let next = r | 1 << bit;
        if next.checked_pow(degree).is_some_and(|power| power <= x) {
            next
        } else {
            r
        }
    })
}
