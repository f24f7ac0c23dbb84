//! Programs that are right, and programs that are not, by message.

use std::fs;

use models::collective::msccl::MscclAlgorithm;
use models::program::{Content, Line, Schedule, Work};

use super::{program, program_fits};

const RING: &str = include_str!("../../../../tests/program/ring-4.xml");
const ALLPAIRS: &str = include_str!("../../../../tests/program/allpairs-4.xml");
const HIERARCHICAL: &str = include_str!("../../../../tests/program/hierarchical-2x2.xml");
const ALLGATHER: &str = include_str!("../../../../tests/program/allgather-4.xml");

fn read(text: &str) -> Result<Content, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    fs::write(&path, text).unwrap();
    let read = program(&path).map_err(|error| error.to_string());
    read.map(|(content, _)| content).map_err(|message| match message.rsplit_once("/p:") {
        Some((_, message)) => message.to_owned(),
        None => message,
    })
}

fn algorithm(text: &str) -> MscclAlgorithm {
    match read(text) {
        Ok(Content::Msccl(algorithm)) => (*algorithm).clone(),
        other => panic!("{other:?}"),
    }
}

fn schedule(text: &str) -> Schedule {
    match read(text) {
        Ok(Content::Goal(schedule)) => (*schedule).clone(),
        other => panic!("{other:?}"),
    }
}

/// The message for `text` with `from` replaced by `to`, once, at its `nth` place from 0.
#[track_caller]
fn broken(text: &str, nth: usize, from: &str, to: &str) -> String {
    let (place, _) = text.match_indices(from).nth(nth).expect("the text has it");
    let text = format!("{}{to}{}", &text[..place], &text[place + from.len()..]);
    read(&text).expect_err("this is broken")
}

#[test]
fn right_algorithms_are_taken() {
    for (text, blocks, joins) in [(RING, 1, 4), (ALLPAIRS, 4, 12), (HIERARCHICAL, 2, 8)] {
        let found = algorithm(text);
        assert_eq!((found.gpus.len(), found.gpus[0].blocks.len()), (4, blocks));
        assert_eq!(found.joins().len(), joins);
    }
    assert_eq!(algorithm(ALLGATHER).sizes, (0, 128 << 20));
    // the same algorithm under another name does something else
    let message = broken(RING, 0, "allreduce", "alltoall");
    assert!(message.contains("this is no alltoall: output chunk 0 of gpu 0 is wrong"), "{message}");
    assert!(read(&RING.replace("allreduce", "custom")).is_ok());
}

#[test]
fn what_an_algorithm_does_wrong_is_named() {
    let cases = [
        // attributes
        (
            broken(RING, 0, "nchannels", "nchanels"),
            "1: <algo>: unknown attribute \"nchanels\"; did you mean `nchannels`?",
        ),
        (
            broken(RING, 0, " proto=\"Simple\"", ""),
            "1: <algo>: there is no attribute `proto`, which is expected",
        ),
        (
            broken(RING, 0, "Simple", "Simpel"),
            "1: <algo>: proto = \"Simpel\"; did you mean `Simple`?",
        ),
        (broken(RING, 0, "ngpus=\"4\"", "ngpus=\"5\""), "1: <algo>: gpu 4 is missing: ngpus is 5"),
        (
            broken(RING, 0, "<gpu id=\"1\"", "<gpu id=\"0\""),
            "13: <gpu>: gpu 0 is there twice: see line 2",
        ),
        (
            broken(RING, 0, "send=\"1\"", "send=\"4\""),
            "3: <tb>: send = 4 is out of range; -1 for none, or a gpu, 0 to 3, is expected",
        ),
        (
            broken(RING, 0, "send=\"1\"", "send=\"0\""),
            "3: <tb>: send = 0 is this gpu itself; another one is expected",
        ),
        (
            broken(RING, 0, "send=\"1\"", "send=\"-1\""),
            "4: <step>: type s needs a peer, and its <tb> has send = -1",
        ),
        (
            broken(RING, 0, "chan=\"0\"", "chan=\"1\""),
            "3: <tb>: chan = 1 is out of range; 0 is expected",
        ),
        (
            broken(RING, 0, "i_chunks=\"4\"", "i_chunks=\"3\""),
            "2: <gpu>: i_chunks = 3; 4, or 0 for a buffer that is not used, is expected: nchunksperloop is 4",
        ),
        (
            broken(RING, 0, "srcoff=\"3\"", "srcoff=\"4\""),
            "4: <step>: srcoff = 4, cnt = 1 is out of range: buffer \"i\" of gpu 0 has 4 chunks",
        ),
        (
            broken(RING, 0, "type=\"rrcs\"", "type=\"rrsc\""),
            "7: <step>: type = \"rrsc\"; did you mean `rrs`?",
        ),
        (
            broken(RING, 0, " s=\"1\"", " s=\"2\""),
            "5: <step>: s = 2; 1 is expected: steps count from 0, in order",
        ),
        // sends and receives
        (
            broken(RING, 1, "cnt=\"1\"", "cnt=\"2\""),
            "5: gpu 0 sends 2 chunks to gpu 1 on channel 0 (its send 2 there), and the receive of line 17 takes 1; the same `cnt` is expected",
        ),
        (
            broken(RING, 0, "send=\"1\"", "send=\"2\""),
            "4: gpu 0 sends to gpu 2 on channel 0, but no tb of gpu 2 receives there: one with recv=\"0\" chan=\"0\" is expected, or the program would wait for ever",
        ),
        (
            broken(RING, 0, "type=\"r\"", "type=\"nop\""),
            "42: this send has no receive: gpu 3 sends 6 times to gpu 0 on channel 0, which receives 5 times; the program would wait for ever",
        ),
        // the order of steps
        (
            broken(HIERARCHICAL, 0, "depid=\"1\" deps=\"2\"", "depid=\"2\" deps=\"2\""),
            "6: depid = 2; a tb of this gpu, 0 to 1, is expected",
        ),
        (
            broken(HIERARCHICAL, 0, "depid=\"1\" deps=\"2\"", "depid=\"1\" deps=\"3\""),
            "6: deps = 3; a step of tb 1, which has 3, is expected",
        ),
        (
            broken(HIERARCHICAL, 0, "depid=\"1\" deps=\"2\"", "depid=\"1\" deps=\"1\""),
            "6: it waits for step 1 of tb 1 (line 11), which has hasdep=\"0\" and so tells nobody; hasdep=\"1\" is expected there",
        ),
        (
            broken(
                HIERARCHICAL,
                0,
                "depid=\"-1\" deps=\"-1\" hasdep=\"1\"",
                "depid=\"1\" deps=\"2\" hasdep=\"1\"",
            ),
            "10: the program would wait for ever: gpu 0 tb 1 (line 10) waits for step 1 of gpu 0 tb 0; gpu 0 tb 0 (line 5) waits for step 2 of gpu 0 tb 1",
        ),
        // the result
        (
            broken(ALLPAIRS, 0, "type=\"re\"", "type=\"cpy\""),
            "2: this is no allreduce: output chunk 0 of gpu 0 is wrong: chunk 0 of gpu 0's input is not in it (coll=\"custom\" is not checked)",
        ),
        (
            broken(ALLPAIRS, 0, "srcbuf=\"s\" srcoff=\"1\"", "srcbuf=\"s\" srcoff=\"0\""),
            "2: this is no allreduce: output chunk 0 of gpu 0 is wrong: chunk 0 of gpu 2's input is not in it (coll=\"custom\" is not checked)",
        ),
        (
            broken(ALLGATHER, 0, "type=\"cpy\"", "type=\"nop\""),
            "2: this is no allgather: output chunk 0 of gpu 0 is wrong: nothing is ever written there (coll=\"custom\" is not checked)",
        ),
    ];
    let wrong: Vec<_> = cases.iter().filter(|(found, expected)| found != expected).collect();
    assert!(wrong.is_empty(), "found, expected: {wrong:#?}");
    assert!(read("<algo").unwrap_err().contains("no XML"));
    assert!(broken(RING, 0, "</algo>", "").contains("cut off"));
}

#[test]
fn a_receive_before_a_send_on_both_sides_waits_for_ever() {
    let text = ALLPAIRS.replacen("<step s=\"0\" type=\"s\"", "<step s=\"0\" type=\"r\"", 1);
    let text = text.replacen("<step s=\"1\" type=\"r\"", "<step s=\"1\" type=\"s\"", 1);
    // gpu 0 now receives from gpu 1 before it sends: that goes well
    assert!(read(&text).unwrap_err().contains("this is no allreduce"), "only its result is wrong");
    let found = algorithm(RING);
    assert_eq!(program_fits(&found, 1, 2), Ok(()));
    // two that send three chunks each before they receive, where two have room
    let gpu = |id: u32, other: u32| {
        format!(
            "<gpu id=\"{id}\" i_chunks=\"3\" o_chunks=\"3\" s_chunks=\"0\">\n\
             <tb id=\"0\" send=\"{other}\" recv=\"{other}\" chan=\"0\">\n\
             <step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"3\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n\
             <step s=\"1\" type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"3\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n\
             </tb></gpu>\n"
        )
    };
    let text = format!(
        "<algo name=\"x\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"3\" ngpus=\"2\" coll=\"custom\" \
         inplace=\"0\">\n{}{}</algo>",
        gpu(0, 1),
        gpu(1, 0)
    );
    let found = algorithm(&text);
    assert_eq!(program_fits(&found, 2, 2), Ok(()));
    let (line, message) = program_fits(&found, 1, 2).unwrap_err();
    assert_eq!(line, 4);
    assert_eq!(
        message,
        "the program would wait for ever (at this size 1 chunks go at once, and 2 sends have room): \
         gpu 0 tb 0 (line 4) waits until gpu 1 tb 0 takes a chunk; gpu 1 tb 0 (line 9) waits until gpu \
         0 tb 0 takes a chunk"
    );
}

const GOAL: &str = "// two ranks\nnum_ranks 2\nrank 0 {\n  a: calc 100 cpu 1\n  \
                    b: send 1000b to 1 tag 7\n  b requires a\n  c: send 20 b to 1 nic 0\n}\n\n\
                    rank 1 { l1: recv 1000b from 0 tag 7; /* the\nother */ l2: recv 20b from 0; l3: calc 5\n\
                    l3 irequires l1 }\n";

#[test]
fn a_schedule_is_put_in_an_order() {
    let found = schedule(GOAL);
    assert_eq!(found.lines, [Line { from: 0, to: 1, nic: 0 }]);
    assert_eq!(found.messages(), (2, 1020));
    // c can be sent at once, and b only after 100 units: so c comes first
    let works: Vec<Work> = found.ranks[0].iter().map(|task| task.work).collect();
    let expected = [
        Work::Calc { cpu: 1, units: 100 },
        Work::Send { line: 0, bytes: 20 },
        Work::Send { line: 0, bytes: 1000 },
    ];
    assert_eq!(works, expected);
    assert_eq!((&found.ranks[0][2].ended[..], &found.ranks[0][2].begun[..]), (&[0][..], &[1][..]));
    let recvs: Vec<Work> = found.ranks[1].iter().map(|task| task.work).collect();
    assert!(recvs.contains(&Work::Recv { line: 0, number: 1, bytes: 1000 }), "{recvs:?}");
    assert!(recvs.contains(&Work::Recv { line: 0, number: 0, bytes: 20 }), "{recvs:?}");
}

#[test]
fn what_a_schedule_does_wrong_is_named() {
    let circle = "num_ranks 2\nrank 0 {\na: send 1b to 1\nb: recv 1b from 1\na requires b\n}\n\
                  rank 1 {\na: send 1b to 0\nb: recv 1b from 0\na requires b\n}\n";
    let cases = [
        (read("\n").unwrap_err(), "2: no schedule: `num_ranks N` and ranks are expected"),
        (
            broken(GOAL, 0, "num_ranks 2", "num_rank 2"),
            "2: unknown word \"num_rank\"; did you mean `num_ranks`?",
        ),
        (broken(GOAL, 0, "num_ranks 2", "num_ranks 3"), "13: rank 2 is missing: num_ranks is 3"),
        (broken(GOAL, 0, "rank 1", "rank 0"), "10: rank 0 is there twice: see line 3"),
        (
            broken(GOAL, 0, "calc 100", "calc 1e2"),
            "4: \"1e2\" is no time; a whole number of at most 9223372036854775807 is expected",
        ),
        (
            broken(GOAL, 0, "calc 100", "clac 100"),
            "4: unknown operation \"clac\"; did you mean `calc`?",
        ),
        (broken(GOAL, 0, "1000b", "1000"), "5: \"to\"; `b`, for bytes, is expected"),
        (
            broken(GOAL, 0, "to 1", "to 2"),
            "5: \"2\" is no rank; a whole number of at most 1 is expected",
        ),
        (broken(GOAL, 0, "to 1", "to 0"), "5: rank 0 is this rank itself; another one is expected"),
        (broken(GOAL, 0, "to 1", "from 1"), "5: \"from\"; `to` is expected"),
        (
            broken(GOAL, 0, "b requires a", "b requires aa"),
            "6: rank 0 has no label \"aa\"; did you mean `a`?",
        ),
        (
            broken(GOAL, 0, "c: send", "b: send"),
            "7: the label \"b\" is there twice in rank 0: see line 5",
        ),
        (broken(GOAL, 0, "nic 0", "nci 0"), "7: unknown word \"nci\"; did you mean `nic`?"),
        (
            broken(GOAL, 1, "from 0", "from -1"),
            "11: -1 stands for any rank: which message is taken would depend on their times; the rank itself is expected",
        ),
        (
            broken(GOAL, 1, "tag 7", "tag 8"),
            "5: this send meets no receive: rank 0 sends 1 times to rank 1 under tag 7, which receives 0 times",
        ),
        (
            broken(GOAL, 1, "1000b", "999b"),
            "5: send 1 from rank 0 to rank 1 under tag 7 has 1000 B, and the receive of line 10 that it meets 999 B; the same size is expected",
        ),
        (broken(GOAL, 0, "l1 }", "l1"), "10: rank 1 is never closed: `}` is expected"),
        (
            read(circle).unwrap_err(),
            "3: the schedule would wait for ever: rank 0 line 3 waits for the end of line 4; rank 0 line 4 waits for the send of line 8; rank 1 line 8 waits for the end of line 9; rank 1 line 9 waits for the send of line 3",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}
