//! Merging: a preset below, what the scenario says above it.

use super::tree::{Node, Table, Value};

/// The keys that say which kind of section a table is, the more telling first.
pub(super) const TAGS: [&str; 2] = ["kind", "algorithm"];

impl Node {
    /// Lays `over` upon this: tables merge key by key, anything else is replaced. A table of
    /// another kind replaces the whole table, whose keys would mean nothing to it.
    pub fn overlay(&mut self, over: Node) {
        let Node { value, origin } = over;
        match (&mut self.value, value) {
            (Value::Table(base), Value::Table(over)) if same_kind(base, &over) => {
                self.origin = origin;
                for entry in over {
                    match base.entry_mut(&entry.key) {
                        Some(old) => {
                            old.key_origin = entry.key_origin;
                            old.node.overlay(entry.node);
                        }
                        None => {
                            base.insert(&entry.key, entry.key_origin, entry.node);
                        }
                    }
                }
            }
            (_, value) => *self = Node { value, origin },
        }
    }
}

/// Whether the first tag that both tables carry, if any, is the same.
fn same_kind(base: &Table, over: &Table) -> bool {
    let tags = TAGS.iter().find_map(|tag| Some((base.get(tag)?, over.get(tag)?)));
    tags.is_none_or(|(base, over)| base == over)
}

#[cfg(test)]
mod tests {
    use crate::load::{Node, Sources, parse, to_toml};

    fn merged(sources: &mut Sources, base: &str, over: &str) -> Node {
        let mut node = parse(sources, "preset", base).unwrap();
        node.overlay(parse(sources, "scenario.toml", over).unwrap());
        node
    }

    #[test]
    fn tables_merge_and_the_rest_is_replaced() {
        let mut sources = Sources::default();
        let base = "a = 1\nb = [1, 2]\n[t]\nx = 1\ny = 2\n[u]\nz = 1\n";
        let node = merged(&mut sources, base, "b = [3]\nu = 5\n[t]\ny = 3\n[t.w]\nv = 1\n");
        assert_eq!(to_toml(&node), "a = 1\nb = [3]\nu = 5\n\n[t]\nx = 1\ny = 3\n\n[t.w]\nv = 1\n");
        let t = node.get("t").unwrap();
        assert_eq!(sources.location(t.get("x").unwrap().origin), "preset:4");
        assert_eq!(sources.location(t.get("y").unwrap().origin), "scenario.toml:4");
        assert_eq!(sources.location(t.origin), "scenario.toml:3");
    }

    #[test]
    fn another_kind_replaces_the_table() {
        let mut sources = Sources::default();
        let base = "[cc]\nalgorithm = \"dcqcn\"\ng = 0.5\n";
        let node = merged(&mut sources, base, "[cc]\nalgorithm = \"swift\"\n");
        assert_eq!(to_toml(&node), "[cc]\nalgorithm = \"swift\"\n");
        let node = merged(&mut sources, base, "[cc]\nrate = 1\n");
        assert_eq!(node.get("cc").unwrap().as_table().unwrap().len(), 3);

        // Under a common `kind`, an algorithm is a key like others.
        let base = "kind = \"collective\"\nalgorithm = \"ring\"\nbytes = 1\n";
        let node = merged(&mut sources, base, "kind = \"collective\"\nalgorithm = \"tree\"\n");
        assert_eq!(node.as_table().unwrap().len(), 3);
    }
}
