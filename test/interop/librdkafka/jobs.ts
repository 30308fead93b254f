import type { Job } from "./runner.ts";

/*
 * Which of librdkafka's tests run: those that need a broker and what is served. Left out are transactions (0098, 0103, 0129), security (0097, 0115, 0119, 0126,
 * 0135, 0142), share groups (0170 and up), what runs on librdkafka's own mock broker (0139, 0150, names that end with _mock), reading from followers (0101),
 * what wants topics that are not created by themselves (0107, 0111, two of 0045), Kafka's scripts (0052, 0077, 0109), a build with TLS (0064) or with RapidJSON
 * (0053, 0110) or a broker of old (0092), and what the library itself calls a known issue (0028, 0047).
 */
const QUICK = [
  "0001_multiobj",
  "0002_unkpart",
  "0003_msgmaxsize",
  "0005_order",
  "0007_autotopic",
  "0008_reqacks",
  "0011_produce_batch",
  "0012_produce_consume",
  "0013_null_msgs",
  "0014_reconsume_191",
  "0015_offsets_seek",
  "0016_client_swname",
  "0017_compression",
  "0018_cgrp_term",
  "0019_list_groups",
  "0020_destroy_hang",
  "0021_rkt_destroy",
  "0022_consume_batch",
  "0026_consume_pause",
  "0029_assign_offset",
  "0030_offset_commit",
  "0031_get_offsets",
  "0033_regex_subscribe",
  "0034_offset_reset",
  "0035_api_version",
  "0036_partial_fetch",
  "0038_performance",
  "0039_event_dr",
  "0040_io_event",
  "0041_fetch_max_bytes",
  "0042_many_topics",
  "0044_partition_cnt",
  "0045_subscribe_update",
  "0045_resubscribe_with_regex",
  "0045_subscribe_many_updates",
  "0048_partitioner",
  "0050_subscribe_adds",
  "0051_assign_adds",
  "0054_offset_time",
  "0055_producer_latency",
  "0056_balanced_group_mt",
  "0057_invalid_topic",
  "0059_bsearch",
  "0060_op_prio",
  "0061_consumer_lag",
  "0063_clusterid",
  "0065_yield",
  "0067_empty_topic",
  "0069_consumer_add_parts",
  "0070_null_empty",
  "0073_headers",
  "0083_cb_event",
  "0084_destroy_flags",
  "0085_headers",
  "0086_purge_remote",
  "0089_max_poll_interval",
  "0090_idempotence",
  "0091_max_poll_interval_timeout",
  "0093_holb_consumer",
  "0099_commit_metadata",
  "0102_static_group_rebalance",
  "0112_assign_unknown_part",
  "0113_cooperative_rebalance",
  "0114_sticky_partitioning",
  "0118_commit_rebalance",
  "0122_buffer_cleaning_after_rebalance",
  "0123_connections_max_idle",
  "0125_immediate_flush",
  "0127_fetch_queue_backoff",
  "0130_store_offsets",
  "0132_strategy_ordering",
  "0140_commit_metadata",
];
/** Of 0081_admin; one failure would end the rest. */
const ADMIN = [
  "CreateTopics",
  "DeleteTopics",
  "CreatePartitions",
  "do_test_AlterConfigs",
  "IncrementalAlterConfigs",
  "do_test_DescribeConfigs:",
  "DescribeConfigs_groups",
  "DeleteRecords",
  "ListConsumerGroups",
  "DescribeConsumerGroups",
  "DescribeTopics",
  "DescribeCluster with temp queue, request_timeout 1500, without authorized",
  "DescribeCluster with main queue, request_timeout 1500, with authorized",
  "DeleteGroups",
  "DeleteConsumerGroupOffsets",
  "ListOffsets",
  "AlterConsumerGroupOffsets",
  "ListConsumerGroupOffsets",
];
/** Of 0137_barrier_batch_consume, but for the one that needs transactions. */
const BATCHES = ["with_seek", "different_batch", "same_batch", "store_offset", "eof_position"];
/** Of 0113_cooperative_rebalance. */
const COOPERATIVE: readonly string[] = [
  "d_change_subscription_add_topic",
  "e_change_subscription_remove_topic",
  "f_assign_call_cooperative",
  "g_incremental_assign_call_eager",
  "h_delete_topic",
  "i_delete_topic_2",
  "j_delete_topic_no_rb_callback",
  "k_add_partition",
  "l_unsubscribe",
  "m_unsubscribe_2",
  "n_wildcard",
  "s_subscribe_when_rebalancing",
  "t_max_poll_interval_exceeded",
  "subscription_variation: 0",
  "v_commit_during_rebalance",
  "x_incremental_rebalances",
];

const subtests = (name: string, list: readonly string[]): Job[] =>
  list.map((subtest) => ({ number: name.slice(0, 4), names: [name], subtest, whole: true }));
const numbers = new Map<string, string[]>();
for (const name of QUICK) numbers.set(name.slice(0, 4), [...(numbers.get(name.slice(0, 4)) ?? []), name]);

/** Those that take longest begin first. */
const SLOW: readonly string[] = ["0091", "0033", "0093", "0123", "0114"];
const byNumber = [...numbers].map(([number, names]): Job => ({ number, names }));

export const JOBS: readonly Job[] = [
  ...byNumber.filter(({ number }) => SLOW.includes(number)),
  ...subtests("0113_cooperative_rebalance", COOPERATIVE),
  ...subtests("0081_admin", ADMIN),
  ...subtests("0137_barrier_batch_consume", BATCHES),
  ...byNumber.filter(({ number }) => !SLOW.includes(number)),
  { number: "0082", names: ["0082_fetch_max_bytes"], whole: true },
];
