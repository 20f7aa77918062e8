//! Written by bindings/generate: every struct, member and constant, to be compared with what the C compiler says of them.

use kvc_sys::*;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{align_of, offset_of, size_of};

/// `tests/abi/layout.txt`: "struct NAME SIZE ALIGNMENT", "member STRUCT.NAME OFFSET SIZE", "constant NAME VALUE".
const TABLE: &str = include_str!("layout.txt");

fn size_of_member<S, M>(_: fn(&S) -> &M) -> usize {
    size_of::<M>()
}

macro_rules! layout {
    ($out:ident: $($name:ident { $($member:ident)* })*) => {$(
        let said = format!("{} {}", size_of::<$name>(), align_of::<$name>());
        $out.insert(concat!("struct ", stringify!($name)).to_string(), said);
        $(
            let member = stringify!($member).trim_start_matches("r#");
            let size = size_of_member(|of: &$name| &of.$member);
            let said = format!("{} {size}", offset_of!($name, $member));
            $out.insert(format!("member {}.{member}", stringify!($name)), said);
        )*
    )*};
}

macro_rules! constants {
    ($out:ident: $($name:ident)*) => {$(
        $out.insert(concat!("constant ", stringify!($name)).to_string(), $name.to_string());
    )*};
}

#[test]
fn everything_is_as_the_c_compiler_has_it() {
    let mut table = BTreeMap::new();
    for line in TABLE.lines() {
        let (what, said) = line.match_indices(' ').nth(1).map(|(at, _)| line.split_at(at)).unwrap();
        table.insert(what.to_string(), said.trim().to_string());
    }
    assert!(table.len() > 400, "the table is not whole");
    let mut ours = BTreeMap::new();
    layout! { ours:
        kvc_error {
            size status retry system_error message
        }
        kvc_array {
            data bytes layer_stride block_stride token_stride head_stride dim_stride dtype
            dim_group
        }
        kvc_rows {
            size flags layer_begin layer_count head_begin head_count token_begin token_count
            token_list token_unit block_tokens blocks block_count slot_begin k v memory device
            stream k_scale v_scale
        }
        kvc_call {
            size flags timeout_us queue user trace_high trace_low
        }
        kvc_result {
            size status user operation retry done bytes bytes_device bytes_host bytes_nvme
            bytes_remote elapsed_us seq lease system_error message
        }
        kvc_precision {
            size flags format planes bytes_max sink_tokens recent_tokens exact_layers
            exact_layer_count
        }
        kvc_store_options {
            size flags memory_bytes nvme_bytes device_bytes seq_max queue_max view_max worker_count
            open_bytes_max timeout_us lease_ms connect_timeout_us directory tenant key_file
            certificate_file authority_file providers copies copies_acked precision log log_context
            log_level resident_summary
        }
        kvc_store_info {
            size state memory_bytes memory_used memory_pinned nvme_bytes nvme_used device_bytes
            device_used seq_count lease_count view_count region_count chunk_count object_count
            features
        }
        kvc_verify_info {
            size reserved pages_read pages_bad bytes_read first_bad
        }
        kvc_layer {
            count kind kv_heads k_dim v_dim rope_dim window k_dtype v_dtype reserved
        }
        kvc_shape {
            size dtype chunk_tokens rope layers layer_runs
        }
        kvc_shape_info {
            size layer_count token_bytes chunk_bytes state_bytes fingerprint
        }
        kvc_scope_options {
            size flags tenant model revision adapter salt salt_size shape bytes_max ttl_ms
            precision
        }
        kvc_scope_info {
            size reserved bytes_device bytes_host bytes_nvme bytes_remote bytes_max chunk_count
            object_count seq_count hit_tokens miss_tokens tokens_written tokens_read
            byte_seconds_device byte_seconds_host byte_seconds_nvme byte_seconds_remote fingerprint
        }
        kvc_extra {
            token_begin token_count data data_size
        }
        kvc_seq_options {
            size flags lease_ms layer_begin layer_count head_begin head_count precision
            prefill_ns_per_token tokens_max first_position extras extra_count write_id tier
            reserved
        }
        kvc_match_info {
            size stop tokens tokens_attention tokens_hot bytes_nvme bytes_remote fetch_us
            prefill_us
        }
        kvc_hint {
            size flags continues_in_ms turn priority
        }
        kvc_seq_info {
            size copies tokens tokens_given tokens_sealed tokens_end tokens_held tokens_shareable
            bytes_device bytes_host bytes_nvme bytes_remote lease_left_ms bits_effective
            error_estimate width_pages
        }
        kvc_bytes {
            data bytes
        }
        kvc_object {
            key key_size parts part_count value_size status tier memory device stream
        }
        kvc_object_options {
            size flags ttl_ms lease_ms layout
        }
        kvc_object_entry {
            key key_size tier value_size
        }
        kvc_queue_options {
            size flags depth reserved description_bytes
        }
        kvc_metrics {
            size reserved match_calls match_tokens hit_tokens gather_bytes append_bytes
            attend_calls evicted_chunks demoted_pages promoted_pages checksum_failures timeouts
            lapsed_leases hit_bytes_device hit_bytes_host hit_bytes_nvme hit_bytes_remote
        }
        kvc_event {
            size kind tier_from tier_to sequence_number token_begin token_count scope chunk parent
            tokens
        }
        kvc_query {
            size flags layer query_heads query_count position token_begin token_count q scale
            soft_cap window memory device stream
        }
        kvc_partial {
            output lse lse_count
        }
        kvc_sparsity {
            size flags mass dense_layers tokens_max bytes_max sink_tokens recent_tokens
        }
        kvc_attend_info {
            size reserved tokens_seen tokens_read bytes_read bytes_wire missed_mass missed_mass_max
        }
        kvc_node {
            size state memory_bytes memory_used chunk_count round_trip_us bandwidth name address
        }
        kvc_cluster_info {
            size node_count epoch copies copies_acked chunks_short repair_bytes_left
            moved_bytes_left
        }
    }
    constants! { ours:
        KVC_VERSION_MAJOR KVC_VERSION_MINOR KVC_VERSION_PATCH KVC_ALL KVC_FOREVER KVC_OK
        KVC_ERR_ARGUMENT KVC_ERR_RANGE KVC_ERR_SHAPE KVC_ERR_TOO_NEW KVC_ERR_MISUSE KVC_ERR_STALE
        KVC_ERR_FORKED KVC_ERR_NOT_FOUND KVC_ERR_GONE KVC_ERR_EXISTS KVC_ERR_CORRUPT
        KVC_ERR_NO_SNAPSHOT KVC_ERR_FULL KVC_ERR_NO_MEMORY KVC_ERR_BUSY KVC_ERR_READ_ONLY
        KVC_ERR_UNAVAILABLE KVC_ERR_TIMEOUT KVC_ERR_CANCELLED KVC_ERR_DENIED KVC_ERR_UNSUPPORTED
        KVC_ERR_VERSION KVC_ERR_IO KVC_ERR_DEVICE KVC_ERR_INTERNAL KVC_RETRY_NEVER KVC_RETRY_NOW
        KVC_RETRY_LATER KVC_RETRY_RECOMPUTE KVC_FEATURE_CUDA KVC_FEATURE_FABRIC KVC_FEATURE_URING
        KVC_FEATURE_ETCD KVC_F32 KVC_F16 KVC_BF16 KVC_F8_E4M3 KVC_U8 KVC_MEMORY_HOST
        KVC_MEMORY_CUDA KVC_MEMORY_CUDA_HOST KVC_MEMORY_CUDA_MANAGED KVC_TIER_DEVICE KVC_TIER_HOST
        KVC_TIER_NVME KVC_TIER_REMOTE KVC_CALL_MORE KVC_CALL_LOCAL KVC_CALL_HOT KVC_CALL_DETACH
        KVC_OP_APPEND KVC_OP_GATHER KVC_OP_MATCH KVC_OP_ATTEND KVC_OP_SELECT KVC_OP_PREFETCH
        KVC_OP_LEASE KVC_OP_OBSERVE KVC_OP_PUBLISH KVC_OP_ATTACH KVC_OP_SAVE KVC_OP_RESTORE
        KVC_OP_FLUSH KVC_OP_VERIFY KVC_OP_OBJECT_PUT KVC_OP_OBJECT_GET KVC_OP_OBJECT_EXISTS
        KVC_OP_OBJECT_DELETE KVC_OP_OBJECT_LIST KVC_OP_SCOPE_CLEAR KVC_FORMAT_EXACT
        KVC_FORMAT_F8_E4M3 KVC_FORMAT_INT8 KVC_FORMAT_INT4_G64 KVC_FORMAT_PLANES
        KVC_PRECISION_ONE_BIT KVC_NONE KVC_SUMMARY_MEAN KVC_SUMMARY_SIGN KVC_SUMMARY_NONE
        KVC_OPEN_HOST_DRIVEN KVC_OPEN_WAIT KVC_OPEN_CREATE KVC_OPEN_READ_ONLY KVC_OPEN_REQUIRE
        KVC_OPEN_SECURE KVC_OPEN_ZERO KVC_OPEN_POPULATE KVC_OPEN_VERIFY_READS KVC_STATE_DETACHED
        KVC_STATE_NVME_READ_ONLY KVC_STATE_DEVICE_LOST KVC_LAYER_FULL KVC_LAYER_WINDOW
        KVC_LAYER_LATENT KVC_LAYER_STATE KVC_ROPE_UNSTATED KVC_ROPE_HALVES KVC_ROPE_PAIRS
        KVC_ROPE_NONE KVC_SEQ_PRIVATE KVC_SEQ_NO_CUT KVC_SEQ_PEEK KVC_STOP_END KVC_STOP_ABSENT
        KVC_STOP_WINDOW KVC_STOP_STATE KVC_STOP_COST KVC_STOP_UNREACHABLE KVC_STOP_DEADLINE
        KVC_HINT_DONE KVC_OBJECT_GROUP KVC_OBJECT_LEADING KVC_OBJECT_LEASE KVC_VIEW_FRAME
        KVC_EVENT_STORED KVC_EVENT_REMOVED KVC_EVENT_MOVED KVC_EVENT_CLEARED KVC_EVENT_LOST
        KVC_NODE_UP KVC_NODE_JOINING KVC_NODE_DRAINING KVC_NODE_DOWN
    }
    // Versions change with every release, and lie nowhere.
    ours.retain(|what, _| !what.contains("KVC_VERSION_"));
    table.retain(|what, _| !what.contains("KVC_VERSION_"));
    let all: BTreeSet<_> = ours.keys().chain(table.keys()).collect();
    for what in all {
        assert_eq!(ours.get(what), table.get(what), "{what}: here, and in the table");
    }
}
