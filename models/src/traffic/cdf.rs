//! Published distributions of message sizes: (bytes, share of messages up to this size).
//!
//! The numbers are those that come with HPCC's simulator (Li et al., SIGCOMM 2019;
//! github.com/alibaba-edu/High-Precision-Congestion-Control, folder `traffic_gen`, in percent).

/// Web search of a Microsoft cluster: Alizadeh et al., "Data Center TCP", SIGCOMM 2010, figure 4.
/// HPCC: `WebSearch_distribution`; the same points in github.com/datacenter/empirical-traffic-gen.
pub(super) const WEB_SEARCH: &[(u64, f64)] = &[
    (0, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
];

/// Hadoop at Facebook: Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM
/// 2015. HPCC: `FbHdp_distribution`.
pub(super) const FB_HADOOP: &[(u64, f64)] = &[
    (0, 0.0),
    (100, 0.01),
    (200, 0.02),
    (300, 0.05),
    (350, 0.15),
    (400, 0.2),
    (500, 0.3),
    (600, 0.4),
    (700, 0.5),
    (1_000, 0.6),
    (2_000, 0.67),
    (7_000, 0.7),
    (30_000, 0.72),
    (50_000, 0.82),
    (80_000, 0.87),
    (120_000, 0.9),
    (300_000, 0.95),
    (1_000_000, 0.975),
    (2_000_000, 0.99),
    (10_000_000, 1.0),
];

/// Distributed storage in production at Alibaba, 2019. HPCC: `AliStorage2019`.
pub(super) const ALI_STORAGE: &[(u64, f64)] = &[
    (0, 0.0),
    (4_000, 0.2293),
    (8_000, 0.6921),
    (16_000, 0.8061),
    (32_000, 0.9047),
    (64_000, 0.9353),
    (128_000, 0.9677),
    (256_000, 0.9753),
    (2_000_000, 1.0),
];

/// RPCs at Google before 2008. HPCC: `GoogleRPC2008`, 48 of its 843 points, chosen so that the
/// straight lines between them miss its mean (2891.6 B) by less than 1 %.
#[rustfmt::skip]
pub(super) const GOOGLE_RPC: &[(u64, f64)] = &[
    (0, 0.0), (3, 0.064883), (32, 0.097324), (40, 0.120503),
    (53, 0.143681), (64, 0.155271), (77, 0.220705), (96, 0.286139),
    (146, 0.388155), (186, 0.443028), (256, 0.497901), (296, 0.576179),
    (352, 0.654457), (433, 0.732736), (512, 0.784921), (652, 0.818469),
    (843, 0.846426), (1_189, 0.875884), (1_603, 0.896178), (2_234, 0.913211),
    (2_891, 0.924083), (5_521, 0.950105), (7_054, 0.959574), (9_879, 0.97127),
    (12_674, 0.978728), (16_384, 0.984694), (22_265, 0.987709), (30_468, 0.989971),
    (41_870, 0.991643), (89_367, 0.995321), (108_225, 0.996311), (131_072, 0.997129),
    (169_033, 0.997724), (216_315, 0.998173), (320_864, 0.998836), (409_266, 0.999205),
    (524_288, 0.999498), (679_140, 0.999617), (892_196, 0.999713), (1_173_036, 0.999786),
    (1_563_315, 0.999844), (2_073_128, 0.999887), (2_693_059, 0.999917), (3_710_020, 0.999945),
    (5_114_695, 0.999965), (7_143_054, 0.99998), (9_710_291, 0.99999), (15_158_197, 1.0),
];
