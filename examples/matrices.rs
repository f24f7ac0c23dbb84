//! Writes the matrices of the benches as files for htsim: `cargo run --example matrices -- FOLDER`.

use std::path::PathBuf;

#[path = "../benches/matrices/mod.rs"]
mod matrices;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| "target/matrices".into(), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for matrix in matrices::all() {
        let path = folder.join(matrix.name).with_extension("cm");
        std::fs::write(&path, matrix.text)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
