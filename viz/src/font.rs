//! The fonts that text is measured with.

use std::sync::Once;

use plotters::style::{FontFamily, FontStyle, register_font};

/// The generic family: the viewer of an SVG substitutes its own.
pub(crate) const FAMILY: FontFamily<'static> = FontFamily::SansSerif;

/// Makes [`FAMILY`] known to plotters. Must run before anything is drawn.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let fonts =
            [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())];
        for (style, bytes) in fonts {
            // a font that cannot be read shows as an error of the first text
            let _ = register_font(FAMILY.as_str(), style, bytes);
        }
    });
}
