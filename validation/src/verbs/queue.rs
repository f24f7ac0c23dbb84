//! Completion queues and RC QPs.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::device::{Context, Device};
use super::gid::Gid;
use super::library::Verbs;
use super::memory::Buffer;
use super::{VerbsError, sys};

/// A completion channel and its queue. Basic completion queues: extended ones lose completions of
/// rxe before rdma-core 55.
pub struct CompletionQueue {
    context: Arc<Context>,
    channel: *mut sys::ibv_comp_channel,
    raw: *mut sys::ibv_cq,
    batch: Vec<sys::ibv_wc>,
}

/// What has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A WRITE of this side, acknowledged.
    Sent,
    /// A WRITE WITH IMMEDIATE of the other side.
    Received,
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that the work request was given.
    pub id: u64,
    /// The QP.
    pub qp_num: u32,
    /// What was done, or why not.
    pub result: Result<Kind, Failure>,
}

/// Why a work request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `ibv_wc_status`, in words.
    pub status: String,
    /// The device's own error.
    pub vendor: u32,
    /// The request was merely flushed after an earlier error.
    pub flushed: bool,
    /// What it usually means.
    pub hint: &'static str,
}

const BATCH: usize = 32;

impl CompletionQueue {
    /// A queue with room for so many completions.
    pub fn new(device: &Device, room: u32) -> Result<Self, VerbsError> {
        let context = device.domain.context.clone();
        let verbs = context.verbs;
        // SAFETY: the context is open; what is made is destroyed by Drop.
        unsafe {
            let channel = (verbs.ibv_create_comp_channel)(context.raw);
            if channel.is_null() {
                return Err(VerbsError::last("ibv_create_comp_channel", ""));
            }
            let raw = (verbs.ibv_create_cq)(context.raw, room as i32, null_mut(), channel, 0);
            let batch = vec![std::mem::zeroed(); BATCH];
            let queue = CompletionQueue { context, channel, raw, batch };
            if raw.is_null() {
                return Err(VerbsError::last(
                    "ibv_create_cq",
                    ": has the device room for so many?",
                ));
            }
            queue.arm()?;
            Ok(queue)
        }
    }

    fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: the queue lives; providers set all `ops` that are used here.
        let result = unsafe { (*self.context.raw).ops.req_notify_cq.map(|f| f(self.raw, 0)) };
        VerbsError::check("ibv_req_notify_cq", result.unwrap_or(95), "")
    }

    /// Takes all completions that are there; waits for one if there is none, at most so long.
    pub fn wait(&mut self, most: Duration, out: &mut Vec<Completion>) -> Result<(), VerbsError> {
        self.drain(out)?;
        if !out.is_empty() {
            return Ok(());
        }
        // SAFETY: the channel lives, and so its descriptor is open.
        let fd = unsafe { BorrowedFd::borrow_raw((*self.channel).fd) };
        let time = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut fds, Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return self.drain(out),
            Ok(_) => {}
            Err(error) => {
                return Err(VerbsError::Verb { verb: "poll", source: error.into(), hint: "" });
            }
        }
        let (mut queue, mut user) = (null_mut(), null_mut());
        // SAFETY: an event is there, and it is acknowledged once.
        unsafe {
            let verbs = self.context.verbs;
            let result = (verbs.ibv_get_cq_event)(self.channel, &mut queue, &mut user);
            VerbsError::check("ibv_get_cq_event", result, "")?;
            (verbs.ibv_ack_cq_events)(queue, 1);
        }
        // what comes between the last look and this makes an event of its own
        self.arm()?;
        self.drain(out)
    }

    /// Takes all completions that are there.
    fn drain(&mut self, out: &mut Vec<Completion>) -> Result<(), VerbsError> {
        loop {
            // SAFETY: the batch has room for so many.
            let count = unsafe {
                let poll = (*self.context.raw).ops.poll_cq;
                poll.map_or(-95, |poll| poll(self.raw, BATCH as i32, self.batch.as_mut_ptr()))
            };
            let count = usize::try_from(count).map_err(|_| VerbsError::Verb {
                verb: "ibv_poll_cq",
                source: std::io::Error::from_raw_os_error(-count),
                hint: "",
            })?;
            let verbs = self.context.verbs;
            out.extend(self.batch[..count].iter().map(|wc| completion(verbs, wc)));
            if count == 0 {
                return Ok(());
            }
        }
    }
}

fn completion(verbs: &Verbs, wc: &sys::ibv_wc) -> Completion {
    let result = match wc.status {
        sys::IBV_WC_SUCCESS if wc.opcode == sys::IBV_WC_RECV_RDMA_WITH_IMM => Ok(Kind::Received),
        sys::IBV_WC_SUCCESS => Ok(Kind::Sent),
        status => {
            // SAFETY: the library answers with a constant text.
            let text = unsafe { CStr::from_ptr((verbs.ibv_wc_status_str)(status)) };
            let flushed = status == sys::IBV_WC_WR_FLUSH_ERR;
            let status = text.to_string_lossy().into_owned();
            Err(Failure { status, vendor: wc.vendor_err, flushed, hint: hint(wc.status) })
        }
    };
    Completion { id: wc.wr_id, qp_num: wc.qp_num, result }
}

fn hint(status: sys::ibv_wc_status) -> &'static str {
    match status {
        sys::IBV_WC_RETRY_EXC_ERR => {
            "no ACK came: the other end is gone, cannot be reached from this GID, or frames of this \
             size or class are lost on the way"
        }
        sys::IBV_WC_RNR_RETRY_EXC_ERR => "the other end has posted nothing to receive with",
        sys::IBV_WC_REM_ACCESS_ERR => "the other end does not let this memory be written",
        sys::IBV_WC_WR_FLUSH_ERR => {
            "no completion says why: the other end refused a packet, or its process ended (see its \
             messages)"
        }
        _ => "the log of the kernel (dmesg) may say more",
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: its QPs are gone, and all events are acknowledged.
        unsafe {
            if !self.raw.is_null() {
                (self.context.verbs.ibv_destroy_cq)(self.raw);
            }
            (self.context.verbs.ibv_destroy_comp_channel)(self.channel);
        }
    }
}

/// What a QP is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpConfig {
    /// Index of the GID.
    pub gid_index: u8,
    /// Bytes of payload of a packet: 256 to 4096.
    pub path_mtu: u32,
    /// Traffic class: the upper six bits are the DSCP, the lower ones ECN's (2 is ECT(0)).
    pub traffic_class: u8,
    /// Local ACK timeout: 4.096 us x 2^timeout.
    pub timeout: u8,
    /// Retransmissions without progress: 0 to 7.
    pub retry_cnt: u8,
    /// Most work requests to send that are under way,
    pub sends: u32,
    /// and to receive.
    pub recvs: u32,
}

/// What the other side must know of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Address {
    /// Its number.
    pub qp_num: u32,
    /// Its first PSN.
    pub psn: u32,
    /// The GID of its port.
    pub gid: Gid,
}

/// An RC QP.
pub struct Qp {
    context: Arc<Context>,
    raw: *mut sys::ibv_qp,
}

const MASK_INIT: u32 =
    sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;
const MASK_RTR: u32 = sys::IBV_QP_STATE
    | sys::IBV_QP_AV
    | sys::IBV_QP_PATH_MTU
    | sys::IBV_QP_DEST_QPN
    | sys::IBV_QP_RQ_PSN
    | sys::IBV_QP_MAX_DEST_RD_ATOMIC
    | sys::IBV_QP_MIN_RNR_TIMER;
const MASK_RTS: u32 = sys::IBV_QP_STATE
    | sys::IBV_QP_TIMEOUT
    | sys::IBV_QP_RETRY_CNT
    | sys::IBV_QP_RNR_RETRY
    | sys::IBV_QP_SQ_PSN
    | sys::IBV_QP_MAX_QP_RD_ATOMIC;
/// RNR timer of NCCL (transport/net_ib): code 12 is 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;
/// Retries after RNR NAKs: without end.
const RNR_RETRY: u8 = 7;
const HOP_LIMIT: u8 = 255;

impl Qp {
    /// A QP in state INIT, whose completions go to `queue`.
    pub fn new(
        device: &Device,
        queue: &CompletionQueue,
        config: &QpConfig,
    ) -> Result<Self, VerbsError> {
        let context = device.domain.context.clone();
        // SAFETY: all bits zero are a value of these types; all objects live.
        unsafe {
            let mut init: sys::ibv_qp_init_attr = std::mem::zeroed();
            init.send_cq = queue.raw;
            init.recv_cq = queue.raw;
            init.qp_type = sys::IBV_QPT_RC;
            init.cap.max_send_wr = config.sends;
            init.cap.max_recv_wr = config.recvs;
            init.cap.max_send_sge = 1;
            init.cap.max_recv_sge = 1;
            let raw = (context.verbs.ibv_create_qp)(device.domain.raw, &mut init);
            if raw.is_null() {
                return Err(VerbsError::last("ibv_create_qp", ""));
            }
            let qp = Qp { context, raw };
            let mut attr: sys::ibv_qp_attr = std::mem::zeroed();
            attr.qp_state = sys::IBV_QPS_INIT;
            attr.port_num = device.port();
            attr.qp_access_flags = sys::IBV_ACCESS_REMOTE_WRITE;
            qp.modify(&mut attr, MASK_INIT, "")?;
            Ok(qp)
        }
    }

    fn modify(
        &self,
        attr: &mut sys::ibv_qp_attr,
        mask: u32,
        hint: &'static str,
    ) -> Result<(), VerbsError> {
        // SAFETY: the QP lives.
        let result = unsafe { (self.context.verbs.ibv_modify_qp)(self.raw, attr, mask as i32) };
        VerbsError::check("ibv_modify_qp", result, hint)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the QP lives.
        unsafe { (*self.raw).qp_num }
    }

    /// Joins it with the QP at the other side, and makes it ready to send.
    pub fn connect(
        &self,
        device: &Device,
        config: &QpConfig,
        own_psn: u32,
        other: &Address,
    ) -> Result<(), VerbsError> {
        // SAFETY: all bits zero are a value of this type.
        let mut attr: sys::ibv_qp_attr = unsafe { std::mem::zeroed() };
        attr.qp_state = sys::IBV_QPS_RTR;
        attr.path_mtu = (config.path_mtu / 128).ilog2();
        attr.dest_qp_num = other.qp_num;
        attr.rq_psn = other.psn;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = MIN_RNR_TIMER;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = device.port();
        attr.ah_attr.grh.dgid.raw = other.gid.0;
        attr.ah_attr.grh.sgid_index = config.gid_index;
        attr.ah_attr.grh.hop_limit = HOP_LIMIT;
        attr.ah_attr.grh.traffic_class = config.traffic_class;
        let hint =
            ": can the other GID be reached from this one (ip route get, same version of IP)?";
        self.modify(&mut attr, MASK_RTR, hint)?;
        // SAFETY: as above.
        let mut attr: sys::ibv_qp_attr = unsafe { std::mem::zeroed() };
        attr.qp_state = sys::IBV_QPS_RTS;
        attr.timeout = config.timeout;
        attr.retry_cnt = config.retry_cnt;
        attr.rnr_retry = RNR_RETRY;
        attr.sq_psn = own_psn;
        attr.max_rd_atomic = 1;
        self.modify(&mut attr, MASK_RTS, "")
    }

    /// Writes bytes of `buffer` to `remote` (address and key); tells the other side with `imm`, and
    /// this one by a completion. Without it nobody is told.
    pub fn write(
        &self,
        id: u64,
        buffer: &Buffer,
        range: std::ops::Range<usize>,
        remote: (u64, u32),
        imm: Option<u32>,
    ) -> Result<(), VerbsError> {
        let mut sge = sys::ibv_sge {
            addr: buffer.address(range.start),
            length: range.len() as u32,
            lkey: buffer.lkey(),
        };
        // SAFETY: all bits zero are a value of this type; the request is copied before the verb ends.
        unsafe {
            let mut request: sys::ibv_send_wr = std::mem::zeroed();
            request.wr_id = id;
            request.sg_list = &mut sge;
            request.num_sge = i32::from(!range.is_empty());
            request.opcode = sys::IBV_WR_RDMA_WRITE;
            if let Some(imm) = imm {
                request.opcode = sys::IBV_WR_RDMA_WRITE_WITH_IMM;
                request.send_flags = sys::IBV_SEND_SIGNALED;
                request.__bindgen_anon_1.imm_data = imm.to_be();
            }
            request.wr.rdma.remote_addr = remote.0;
            request.wr.rdma.rkey = remote.1;
            let mut bad = null_mut();
            let post = (*self.context.raw).ops.post_send;
            let result = post.map_or(95, |post| post(self.raw, &mut request, &mut bad));
            VerbsError::check("ibv_post_send", result, "")
        }
    }

    /// Makes room for one WRITE WITH IMMEDIATE of the other side.
    pub fn post_recv(&self, id: u64) -> Result<(), VerbsError> {
        // SAFETY: as for `write`.
        unsafe {
            let mut request: sys::ibv_recv_wr = std::mem::zeroed();
            request.wr_id = id;
            let mut bad = null_mut();
            let post = (*self.context.raw).ops.post_recv;
            let result = post.map_or(95, |post| post(self.raw, &mut request, &mut bad));
            VerbsError::check("ibv_post_recv", result, "")
        }
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { (self.context.verbs.ibv_destroy_qp)(self.raw) };
    }
}
