#pragma once
#include <utility>

#include "kvc/kvc.h"
#include "news.h"

/// Who includes this calls the library with its requests for memory counted as the library's.
namespace kvc::fault {

template <auto kCall>
struct InsideCall {
  template <typename... Arguments>
  auto operator()(Arguments &&...arguments) const {
    const Inside inside;
    return kCall(std::forward<Arguments>(arguments)...);
  }
};
template <auto kCall>
constexpr InsideCall<kCall> inside_call;

}  // namespace kvc::fault

#define kvc_append kvc::fault::inside_call<&::kvc_append>
#define kvc_attend kvc::fault::inside_call<&::kvc_attend>
#define kvc_attend_merge kvc::fault::inside_call<&::kvc_attend_merge>
#define kvc_close kvc::fault::inside_call<&::kvc_close>
#define kvc_cluster_drain kvc::fault::inside_call<&::kvc_cluster_drain>
#define kvc_cluster_get_info kvc::fault::inside_call<&::kvc_cluster_get_info>
#define kvc_cluster_locate kvc::fault::inside_call<&::kvc_cluster_locate>
#define kvc_cluster_nodes kvc::fault::inside_call<&::kvc_cluster_nodes>
#define kvc_event_drain kvc::fault::inside_call<&::kvc_event_drain>
#define kvc_event_watch kvc::fault::inside_call<&::kvc_event_watch>
#define kvc_gather kvc::fault::inside_call<&::kvc_gather>
#define kvc_lease_release kvc::fault::inside_call<&::kvc_lease_release>
#define kvc_lease_renew kvc::fault::inside_call<&::kvc_lease_renew>
#define kvc_match kvc::fault::inside_call<&::kvc_match>
#define kvc_metrics_read kvc::fault::inside_call<&::kvc_metrics_read>
#define kvc_metrics_text kvc::fault::inside_call<&::kvc_metrics_text>
#define kvc_object_delete kvc::fault::inside_call<&::kvc_object_delete>
#define kvc_object_exists kvc::fault::inside_call<&::kvc_object_exists>
#define kvc_object_get kvc::fault::inside_call<&::kvc_object_get>
#define kvc_object_list kvc::fault::inside_call<&::kvc_object_list>
#define kvc_object_put kvc::fault::inside_call<&::kvc_object_put>
#define kvc_open kvc::fault::inside_call<&::kvc_open>
#define kvc_queue_cancel kvc::fault::inside_call<&::kvc_queue_cancel>
#define kvc_queue_create kvc::fault::inside_call<&::kvc_queue_create>
#define kvc_queue_drain kvc::fault::inside_call<&::kvc_queue_drain>
#define kvc_queue_fd kvc::fault::inside_call<&::kvc_queue_fd>
#define kvc_queue_release kvc::fault::inside_call<&::kvc_queue_release>
#define kvc_queue_submit kvc::fault::inside_call<&::kvc_queue_submit>
#define kvc_region_register kvc::fault::inside_call<&::kvc_region_register>
#define kvc_region_release kvc::fault::inside_call<&::kvc_region_release>
#define kvc_scope_clear kvc::fault::inside_call<&::kvc_scope_clear>
#define kvc_scope_create kvc::fault::inside_call<&::kvc_scope_create>
#define kvc_scope_get_info kvc::fault::inside_call<&::kvc_scope_get_info>
#define kvc_scope_release kvc::fault::inside_call<&::kvc_scope_release>
#define kvc_select kvc::fault::inside_call<&::kvc_select>
#define kvc_seq_attach kvc::fault::inside_call<&::kvc_seq_attach>
#define kvc_seq_budget kvc::fault::inside_call<&::kvc_seq_budget>
#define kvc_seq_compact kvc::fault::inside_call<&::kvc_seq_compact>
#define kvc_seq_create kvc::fault::inside_call<&::kvc_seq_create>
#define kvc_seq_fork kvc::fault::inside_call<&::kvc_seq_fork>
#define kvc_seq_get_info kvc::fault::inside_call<&::kvc_seq_get_info>
#define kvc_seq_hint kvc::fault::inside_call<&::kvc_seq_hint>
#define kvc_seq_identify kvc::fault::inside_call<&::kvc_seq_identify>
#define kvc_seq_importance kvc::fault::inside_call<&::kvc_seq_importance>
#define kvc_seq_lease kvc::fault::inside_call<&::kvc_seq_lease>
#define kvc_seq_observe kvc::fault::inside_call<&::kvc_seq_observe>
#define kvc_seq_prefetch kvc::fault::inside_call<&::kvc_seq_prefetch>
#define kvc_seq_publish kvc::fault::inside_call<&::kvc_seq_publish>
#define kvc_seq_release kvc::fault::inside_call<&::kvc_seq_release>
#define kvc_seq_reorder kvc::fault::inside_call<&::kvc_seq_reorder>
#define kvc_seq_restore kvc::fault::inside_call<&::kvc_seq_restore>
#define kvc_seq_save kvc::fault::inside_call<&::kvc_seq_save>
#define kvc_seq_truncate kvc::fault::inside_call<&::kvc_seq_truncate>
#define kvc_seq_withdraw kvc::fault::inside_call<&::kvc_seq_withdraw>
#define kvc_shape_check kvc::fault::inside_call<&::kvc_shape_check>
#define kvc_store_flush kvc::fault::inside_call<&::kvc_store_flush>
#define kvc_store_get_info kvc::fault::inside_call<&::kvc_store_get_info>
#define kvc_store_step kvc::fault::inside_call<&::kvc_store_step>
#define kvc_store_verify kvc::fault::inside_call<&::kvc_store_verify>
#define kvc_trace_record kvc::fault::inside_call<&::kvc_trace_record>
#define kvc_view_acquire kvc::fault::inside_call<&::kvc_view_acquire>
#define kvc_view_release kvc::fault::inside_call<&::kvc_view_release>
