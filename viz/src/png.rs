//! Pictures of points, for what shows no SVG.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};

use crate::error::PlotError;

/// Points a unit of a drawing: letters stay sharp.
const SCALE: f32 = 2.0;

/// An SVG of this crate as PNG, drawn with the font that its texts were measured with.
pub fn png(svg: &str) -> Result<Vec<u8>, PlotError> {
    let drawing = |error: &dyn std::fmt::Display| PlotError::Drawing(error.to_string());
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = usvg::Options {
        font_family: "DejaVu Sans".to_owned(),
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| drawing(&error))?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).ceil(), (size.height() * SCALE).ceil());
    let pixmap = tiny_skia::Pixmap::new(width as u32, height as u32);
    let mut pixmap = pixmap.ok_or_else(|| drawing(&"the picture has no size"))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| drawing(&error))
}
