//! A table as Parquet.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::table::{Cells, Field};

/// The bytes of a Parquet file with these columns: `INT64`, `DOUBLE`, `BOOLEAN`, and UTF-8
/// `BYTE_ARRAY`; all but flags may be null.
pub(super) fn bytes(fields: &[Field]) -> Result<Vec<u8>> {
    let types: Result<Vec<TypePtr>> = fields.iter().map(column).collect();
    let schema = Type::group_type_builder("schema").with_fields(types?).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("rocesim {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for field in fields {
        match &field.cells {
            Cells::Whole(cells) => write::<Int64Type>(&mut group, cells)?,
            Cells::Number(cells) => write::<DoubleType>(&mut group, cells)?,
            Cells::Text(cells) => {
                let bytes = |cell: &Option<String>| cell.as_deref().map(ByteArray::from);
                let cells: Vec<Option<ByteArray>> = cells.iter().map(bytes).collect();
                write::<ByteArrayType>(&mut group, &cells)?;
            }
            Cells::Flag(cells) => {
                let cells: Vec<Option<bool>> = cells.iter().copied().map(Some).collect();
                write::<BoolType>(&mut group, &cells)?;
            }
        }
    }
    group.close()?;
    writer.close()?;
    Ok(out)
}

fn column(field: &Field) -> Result<TypePtr> {
    let physical = match field.cells {
        Cells::Whole(_) => Physical::INT64,
        Cells::Number(_) => Physical::DOUBLE,
        Cells::Text(_) => Physical::BYTE_ARRAY,
        Cells::Flag(_) => Physical::BOOLEAN,
    };
    let text = matches!(field.cells, Cells::Text(_));
    let column = Type::primitive_type_builder(&field.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(text.then_some(LogicalType::String))
        .build()?;
    Ok(Arc::new(column))
}

/// Writes a column; a missing cell has definition level 0.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    cells: &[Option<T::T>],
) -> Result<()> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.iter().flatten().cloned().collect();
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    column.close()
}
