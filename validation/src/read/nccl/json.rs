//! What nccl-tests writes with `-J` (from 2.17 on, `src/util.cu`): the table once more, as JSON.
//! Numbers that are none stand as text (`"nan"`), and so do booleans and roots.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::deduce;
use crate::curve::{Row, Table, Timing, Warning};
use crate::error::ReadError;
use crate::read::text::{head as begin, line_error};

/// Whether this begins as such a file does.
pub(in crate::read) fn is(text: &str) -> bool {
    let begin = begin(text, 4096);
    begin.trim_start().starts_with('{') && begin.contains("\"nccl_version\"")
        || (begin.contains("\"args\"") && text.contains("\"average_bus_bandwidth\""))
}

/// Its one table. Of a file that is cut short, what is whole.
pub(in crate::read) fn parse(file: &Path, text: &str) -> Result<Vec<Table>, ReadError> {
    let mut warnings = Vec::new();
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) => value,
        Err(error) => {
            let rescued = if error.is_eof() { closed(text) } else { None };
            let value = rescued.and_then(|text| serde_json::from_str(&text).ok());
            let line = error.line() as u64;
            let message = format!("JSON of nccl-tests was expected: {error}");
            let Some(value) = value else { return Err(line_error(file, line, message)) };
            let message = "the file is cut short".to_owned();
            warnings.push(Warning { line, message });
            value
        }
    };
    let Some(top) = value.as_object() else {
        return Err(line_error(file, 1, "an object was expected".to_owned()));
    };
    let mut table =
        Table { source: file.display().to_string(), line: 1, warnings, ..Table::default() };
    head(top, &mut table);
    for (index, result) in list(top, "results").iter().enumerate() {
        match row(result) {
            Some(row) => table.rows.push(row),
            None => {
                let message = format!("results[{index}] has no size or count: left out");
                table.warnings.push(Warning { line: 1, message });
            }
        }
    }
    for row in &table.rows {
        let mut complaints = Vec::new();
        row.check(&mut complaints);
        let of_row = |message| Warning { line: 1, message: format!("{} B: {message}", row.bytes) };
        table.warnings.extend(complaints.into_iter().map(of_row));
    }
    for error in
        list(top, "errors").iter().filter_map(Value::as_str).filter(|text| !text.is_empty())
    {
        table.warnings.push(Warning { line: 1, message: format!("error: {error}") });
    }
    deduce::complete(&mut table, &Default::default(), None);
    Ok(vec![table])
}

fn list<'a>(object: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// All but the rows.
fn head(top: &Map<String, Value>, table: &mut Table) {
    let whole = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
    let config = top.get("config").and_then(Value::as_object);
    let setting = |key: &str| config.and_then(|config| whole(config.get(key)?));
    table.iterations = setting("iterations");
    table.warmup = setting("warmup_iters");
    let program = list(top, "args").first().and_then(Value::as_str);
    table.name = program.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    table.nccl_version = top
        .get("nccl_version")
        .and_then(Value::as_u64)
        .map(|code| deduce::version(&code.to_string()));
    let devices = match config.map_or(&[][..], |config| list(config, "devices")) {
        [] => list(top, "devices"),
        devices => devices,
    };
    // one device of each process is listed
    let each = setting("nthreads").unwrap_or(1).saturating_mul(setting("ngpus").unwrap_or(1));
    if !devices.is_empty() {
        table.ranks = Some((devices.len() as u32).saturating_mul(each.max(1)));
        let hosts = devices.iter().filter_map(|device| device.get("hostname")?.as_str());
        let hosts: BTreeSet<&str> = hosts.collect();
        table.hosts = (!hosts.is_empty()).then_some(hosts.len() as u32);
    }
    let of = |object: &str, key: &str| number(top.get(object)?.get(key)?);
    table.average_busbw = of("average_bus_bandwidth", "bandwidth");
    table.out_of_bounds = of("out_of_bounds", "count").map(|count| count as u64);
}

fn row(result: &Value) -> Option<Row> {
    let text = |key: &str| Some(result.get(key)?.as_str()?.trim().to_owned());
    let timing = |key: &str| {
        let group = result.get(key)?;
        let of = |key: &str| number(group.get(key)?);
        Some(Timing {
            time_s: of("time").or_else(|| of("cpu_time"))? / 1e6,
            algbw_gbytes_per_s: of("alg_bw")?,
            busbw_gbytes_per_s: of("bus_bw")?,
            wrong: of("nwrong"),
        })
    };
    Some(Row {
        line: 1,
        bytes: result.get("size")?.as_u64()?,
        count: result.get("count")?.as_u64()?,
        dtype: text("type"),
        redop: text("redop"),
        root: text("root").and_then(|root| root.parse().ok()),
        out_of_place: timing("out_of_place"),
        in_place: timing("in_place"),
        extrapolated: false,
    })
}

/// A finite number of at least 0.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A file that is cut short, up to the end of its last whole object, with all brackets closed.
fn closed(text: &str) -> Option<String> {
    let (mut open, mut quoted, mut escaped) = (Vec::new(), false, false);
    let mut best: Option<(usize, Vec<u8>)> = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                open.pop();
                // results are objects of the second list
                if byte == b'}' && open.len() <= 3 {
                    best = Some((at + 1, open.clone()));
                }
            }
            _ => {}
        }
    }
    let (end, open) = best?;
    let tail: String = open.iter().rev().map(|byte| *byte as char).collect();
    Some(text[..end].to_owned() + &tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 GiB by two ranks in 25 ms: 42.95 GB/s; busbw / algbw of AllReduce is 1.
    const JSON: &str = r##"{"version":1,"start_time":"2026-01-01 00:00:00",
"args":["/opt/all_reduce_perf","-b","1G"],"env":["A={["],"nccl_version":22903,
"config":{"nthreads":1,"ngpus":1,"warmup_iters":5,"iterations":20,
"devices":[{"rank":0,"hostname":"a"},{"rank":1,"hostname":"b"}]},
"results":[{"size":1073741824,"count":268435456,"type":"float","redop":"sum","root":"    -1",
"out_of_place":{"time":25000.0,"alg_bw":42.949673,"bus_bw":42.949673,"nwrong":0.0},
"in_place":{"time":"nan","alg_bw":"nan","bus_bw":"nan","nwrong":null},
"actual_iterations":20,"experiment_name":"AllReduce"}],
"out_of_bounds":{"count":0,"okay":"true"},
"average_bus_bandwidth":{"bandwidth":42.949673,"okay":"unchecked"},"errors":[]}"##;

    #[test]
    fn a_file_and_one_cut_short() {
        assert!(is(JSON));
        let tables = parse(Path::new("j"), JSON).unwrap();
        let [table] = tables.as_slice() else { panic!("{tables:?}") };
        assert_eq!((table.ranks, table.hosts), (Some(2), Some(2)));
        assert_eq!((table.warmup, table.iterations), (Some(5), Some(20)));
        assert_eq!(table.nccl_version.as_deref(), Some("2.29.3"));
        assert_eq!(table.op.map(|op| op.name()), Some("all_reduce"));
        assert_eq!((table.average_busbw, table.out_of_bounds), (Some(42.949673), Some(0)));
        let row = &table.rows[0];
        assert_eq!((row.root, row.in_place), (Some(-1), None));
        assert_eq!(row.out_of_place.unwrap().time_s, 0.025);
        assert_eq!(table.warnings, []);
        let cut = &JSON[..JSON.find("\"out_of_bounds").unwrap() + 20];
        let table = parse(Path::new("j"), cut).unwrap().remove(0);
        assert_eq!((table.rows.len(), table.warnings.len()), (1, 1));
        for end in 0..JSON.len() {
            let _ = parse(Path::new("j"), &JSON[..end]);
        }
    }
}
