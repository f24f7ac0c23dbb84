//! The keys of a scenario and their values, one by one.

use std::collections::BTreeMap;

use toml::Value;

/// Keys of a TOML text, such as `switch.ecn.3.kmin` or `traffic[0].bytes`, with their values.
pub fn keys(text: &str) -> Result<BTreeMap<String, String>, toml::de::Error> {
    let table: toml::Table = toml::from_str(text)?;
    let mut keys = BTreeMap::new();
    table.iter().for_each(|(key, value)| add(&mut keys, key.clone(), value));
    Ok(keys)
}

fn add(keys: &mut BTreeMap<String, String>, path: String, value: &Value) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| add(keys, format!("{path}.{key}"), value));
        }
        Value::Array(values) if values.iter().any(Value::is_table) => {
            let numbered = values.iter().enumerate();
            numbered.for_each(|(index, value)| add(keys, format!("{path}[{index}]"), value));
        }
        Value::String(text) => {
            keys.insert(path, text.clone());
        }
        other => {
            keys.insert(path, other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_lists_of_tables_have_paths() {
        let text = "seed = 1\n[switch.ecn.3]\nkmin = \"50KB\"\n[[traffic]]\nsenders = [1, 2]\n";
        let keys = keys(text).unwrap();
        let pairs: Vec<(&str, &str)> = keys.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [("seed", "1"), ("switch.ecn.3.kmin", "50KB"), ("traffic[0].senders", "[1, 2]")]
        );
    }
}
