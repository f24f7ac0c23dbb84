//! Requesters and responders, by hand.

use super::*;

const PARAMS: RequesterParams = RequesterParams {
    mtu: 1000,
    ack_every: 4,
    ack_timeout: Delta::from_us(67),
    retry_cnt: 2,
    framing: Framing::Write,
    recovery: Recovery::GoBackN,
    ect: true,
    wants: None,
    header: 0,
};
const STRICT: ResponderParams = ResponderParams { nak_repeat: None, ack_duplicates: true };

const fn us(us: u64) -> Time {
    Time::from_ps(us * 1_000_000)
}

#[test]
fn messages_are_cut_into_packets() {
    let mut requester = Requester::default();
    requester.post(5500, &PARAMS);
    requester.post(0, &PARAMS);
    let segments: Vec<_> = std::iter::from_fn(|| requester.take(us(0), &PARAMS))
        .map(|s| (s.psn, s.payload, s.first, s.last, s.ack_req))
        .collect();
    // AckReq on the fourth packet of the message and on the last; an empty WRITE is one packet
    assert_eq!(
        segments,
        [
            (0, 1000, true, false, false),
            (1, 1000, false, false, false),
            (2, 1000, false, false, false),
            (3, 1000, false, false, true),
            (4, 1000, false, false, false),
            (5, 500, false, true, true),
            (6, 0, true, true, true),
        ]
    );
    assert_eq!(requester.on_ack(us(1), 5, &PARAMS), Progress::Advanced);
    assert_eq!(requester.on_ack(us(1), 5, &PARAMS), Progress::Stale);
    assert_eq!(requester.on_ack(us(1), 6, &PARAMS), Progress::Complete);
    assert_eq!(requester.timeout_at(), Time::MAX);
}

#[test]
fn a_gap_costs_one_nak_and_everything_after_it_is_sent_again() {
    let (mut requester, mut responder) = (Requester::default(), Responder::default());
    requester.post(8000, &PARAMS);
    (0..6).for_each(|_| assert!(requester.take(us(0), &PARAMS).is_some()));
    let receive =
        |responder: &mut Responder, psn| responder.on_data(us(1), psn, [false; 2], &STRICT);
    assert!(receive(&mut responder, 0).accepted && receive(&mut responder, 1).accepted);
    // 2 is lost
    let gap = Receipt { accepted: false, first: false, duplicate: false, reply: Reply::Nak(2) };
    assert_eq!(receive(&mut responder, 3), gap);
    assert_eq!(receive(&mut responder, 4).reply, Reply::None);
    assert_eq!(requester.on_nak(us(2), 2, &PARAMS), Progress::Advanced);
    let segment = requester.take(us(3), &PARAMS).unwrap();
    assert_eq!((segment.psn, segment.again), (2, true));
    // the repaired gap is forgotten: the next one is reported again
    assert!(receive(&mut responder, 2).accepted);
    assert_eq!(receive(&mut responder, 4).reply, Reply::Nak(3));
    // duplicates are acknowledged with the last in order
    let again = Receipt { accepted: false, first: false, duplicate: true, reply: Reply::Ack(2) };
    assert_eq!(receive(&mut responder, 1), again);
    // a NAK that says what is known changes nothing
    assert_eq!(requester.on_nak(us(4), 1, &PARAMS), Progress::Stale);
    assert_eq!(requester.take(us(4), &PARAMS).unwrap().psn, 3);
}

#[test]
fn a_nak_can_be_repeated_after_a_while() {
    let params = ResponderParams { nak_repeat: Some(Delta::from_us(500)), ack_duplicates: false };
    let mut responder = Responder::default();
    let replies =
        [10, 509, 510, 600].map(|at| responder.on_data(us(at), 7, [true, false], &params).reply);
    assert_eq!(replies, [Reply::Nak(0), Reply::None, Reply::Nak(0), Reply::None]);
}

#[test]
fn the_timer_runs_from_the_oldest_packet_and_gives_up() {
    let mut requester = Requester::default();
    requester.post(3000, &PARAMS);
    requester.take(us(10), &PARAMS);
    requester.take(us(20), &PARAMS);
    assert_eq!(requester.timeout_at(), us(77));
    assert_eq!(requester.on_ack(us(30), 0, &PARAMS), Progress::Advanced);
    assert_eq!(requester.timeout_at(), us(97));
    assert!(requester.on_timeout(us(97), &PARAMS));
    assert_eq!(requester.take(us(97), &PARAMS).unwrap().psn, 1);
    assert_eq!(requester.timeout_at(), us(164));
    assert!(requester.on_timeout(us(164), &PARAMS));
    assert!(!requester.on_timeout(us(231), &PARAMS), "two retries are used up");
}

#[test]
fn selective_repeat_sends_again_what_is_missing_and_then_goes_on() {
    let params = RequesterParams { ack_every: 1, ..PARAMS };
    let mut requester = Requester::selective(SelectiveConfig::default());
    requester.post(8000, &params);
    let take = |requester: &mut Requester, at| {
        requester.take(us(at), &params).map(|segment| (segment.psn, segment.again))
    };
    (0..6).for_each(|_| assert!(take(&mut requester, 0).is_some()));
    // one packet was in flight when the timer was set: 100 us, and 320 with six
    assert_eq!(requester.timeout_at(), us(100));
    assert!(requester.extends_timeout() && !requester.extends_timeout());
    assert_eq!(requester.timeout_at(), us(320));
    // 1 and 3 are lost
    assert_eq!(requester.on_ack(us(1), 0, &params), Progress::Advanced);
    assert_eq!(requester.on_early(us(2), 1, 2, &params), Progress::Stale);
    assert_eq!(take(&mut requester, 2), Some((1, true)));
    assert_eq!(take(&mut requester, 2), Some((6, false)));
    assert_eq!(requester.on_early(us(3), 1, 4, &params), Progress::Stale);
    assert!(requester.must_repeat());
    assert_eq!([take(&mut requester, 3), take(&mut requester, 3)].map(|t| t.unwrap().0), [3, 7]);
    assert!(!requester.has_work());
    // 5 packets are in flight, and never are the retries used up
    assert_eq!(requester.on_ack(us(4), 2, &params), Progress::Advanced);
    assert_eq!(requester.timeout_at(), us(324));
    (1..9).for_each(|n| assert!(requester.on_timeout(us(400 * n), &params)));
    assert_eq!(take(&mut requester, 4000), Some((3, true)));
    assert_eq!(requester.on_ack(us(4001), 7, &params), Progress::Complete);
}

const BACK_TO_0: RequesterParams = RequesterParams { recovery: Recovery::GoBack0, ..PARAMS };

#[test]
fn go_back_0_sends_a_message_again_from_its_first_packet() {
    let mut requester = Requester::default();
    let mut responder = Responder::new(Recovery::GoBack0);
    // two messages of 6 and of 2 packets: PSNs 0 to 5 and 6 to 7
    requester.post(6000, &BACK_TO_0);
    requester.post(2000, &BACK_TO_0);
    let take = |requester: &mut Requester| requester.take(us(0), &BACK_TO_0);
    let receive = |responder: &mut Responder, segment: Segment| {
        let flags = [segment.ack_req, segment.last];
        responder.on_data(us(1), segment.psn, flags, &STRICT)
    };
    let sent: Vec<Segment> = (0..7).filter_map(|_| take(&mut requester)).collect();
    // the fourth packet asks for an ACK; 4 is lost, and the NAK asks for the first one
    let replies: Vec<Reply> =
        [0, 1, 2, 3, 5, 6].map(|psn: usize| receive(&mut responder, sent[psn]).reply).into();
    let none = Reply::None;
    assert_eq!(replies, [none, none, none, Reply::Ack(3), Reply::Nak(0), none]);
    assert_eq!(requester.on_ack(us(2), 3, &BACK_TO_0), Progress::Advanced);
    assert_eq!(requester.in_flight(&BACK_TO_0), 3000);
    requester.on_nak(us(3), 0, &BACK_TO_0);
    assert_eq!(requester.in_flight(&BACK_TO_0), 0);
    // the second attempt loses 2, and that gap is reported too
    let again: Vec<Segment> = (0..4).filter_map(|_| take(&mut requester)).collect();
    assert_eq!((again[0].psn, again[0].first, again[0].again), (0, true, true));
    let first = receive(&mut responder, again[0]);
    assert!(first.accepted && first.first);
    assert!(receive(&mut responder, again[1]).accepted);
    assert_eq!(receive(&mut responder, again[3]).reply, Reply::Nak(0));
    requester.on_nak(us(4), 0, &BACK_TO_0);
    // the third one comes as a whole, and its NAK comes once more, too late
    let third: Vec<Segment> = (0..6).filter_map(|_| take(&mut requester)).collect();
    let receipts = third.iter().map(|segment| receive(&mut responder, *segment));
    assert_eq!(receipts.filter(|receipt| receipt.accepted).count(), 6);
    assert_eq!(requester.on_ack(us(5), 5, &BACK_TO_0), Progress::Advanced);
    assert_eq!(requester.on_nak(us(5), 0, &BACK_TO_0), Progress::Stale);
    assert_eq!(take(&mut requester).map(|segment| segment.psn), Some(6));
    assert_eq!(requester.take_completed(), 1);
}

#[test]
fn go_back_0_times_out_to_the_first_packet_and_a_whole_message_is_a_duplicate() {
    let mut requester = Requester::default();
    let mut responder = Responder::new(Recovery::GoBack0);
    requester.post(5000, &BACK_TO_0);
    let receive = |responder: &mut Responder, psn| {
        responder.on_data(us(1), psn, [psn == 3 || psn == 4, psn == 4], &STRICT)
    };
    (0..5).for_each(|_| assert!(requester.take(us(0), &BACK_TO_0).is_some()));
    // the last one is lost: no gap shows it
    (0..4).for_each(|psn| assert!(receive(&mut responder, psn).accepted));
    requester.on_ack(us(2), 3, &BACK_TO_0);
    assert!(requester.on_timeout(us(69), &BACK_TO_0));
    assert_eq!(requester.take(us(69), &BACK_TO_0).map(|segment| segment.psn), Some(0));
    // the responder begins anew although it expected the fifth
    (0..5).for_each(|psn| assert!(receive(&mut responder, psn).accepted));
    // this ACK is lost; the message comes a third time, and is known
    let known = receive(&mut responder, 0);
    assert_eq!((known.accepted, known.duplicate, known.reply), (false, true, Reply::Ack(4)));
    assert_eq!(requester.on_ack(us(140), 4, &BACK_TO_0), Progress::Complete);
}
