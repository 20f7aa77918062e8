#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/sha256.h"
#include "store/page_sums.h"
#include "store/store.h"

/// Complete chunks become immutable and, if they have a name, visible.
namespace kvc::store {

/// Unpredictable and never repeated: a digest over the store's seed and a count.
void Store::draw_write_id(uint8_t *out) {
  thread_local base::Sha256 hash;
  uint8_t input[40];
  const uint64_t count = write_id_count_.fetch_add(1, std::memory_order_relaxed);
  std::memcpy(input, write_id_seed_, 32);
  std::memcpy(input + 32, &count, 8);
  const base::Digest digest = hash.digest(input, sizeof input);
  std::memcpy(out, digest.data(), 16);
}

/// The frame headers and the ids of a chunk whose rows are all there.
void Store::write_chunk(const Sequence &seq, OpenChunk &open, uint64_t chunk, const seq::Name &name) {
  const ChunkLayout &layout = seq.scope->layout;
  const seq::Shape &shape = seq.scope->shape;
  codec::FrameHeader header;
  header.flags = seq.is_private ? static_cast<uint32_t>(codec::frame_private) : 0;
  header.chunk = name;
  std::copy(std::begin(open.write_id), std::end(open.write_id), header.write_id.begin());
  std::memcpy(&header.shape_tag, shape.fingerprint.data(), sizeof header.shape_tag);
  header.tokens = shape.chunk_tokens;
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    const ChunkLayout::Page &page = layout.page(l);
    if (!page_sums(open.data, layout, l)->valid) sum_page(open.data, layout, l);
    const PageSums sums = *page_sums(open.data, layout, l);
    header.layer = l;
    header.head_count = static_cast<uint16_t>(page.layers->kv_heads);
    header.k_dim = static_cast<uint16_t>(page.layers->k_dim);
    header.v_dim = static_cast<uint16_t>(page.layers->v_dim);
    header.k_dtype = static_cast<uint8_t>(page.layers->k_dtype);
    header.v_dtype = static_cast<uint8_t>(page.layers->v_dtype);
    codec::frame_exact_layout(header, page.k_bytes, page.v_bytes, sums.k, sums.v);
    codec::frame_encode(open.data + layout.header_offset(l), header);
  }
  const uint64_t first = (chunk - seq.sealed) * seq.chunk_tokens();
  const uint64_t known = std::min<uint64_t>(seq.ids.size() > first ? seq.ids.size() - first : 0, seq.chunk_tokens());
  auto *ids = reinterpret_cast<uint32_t *>(open.data + layout.ids_offset());
  ids[0] = static_cast<uint32_t>(known);
  if (known) std::memcpy(ids + 1, seq.ids.data() + first, known * sizeof(int32_t));
}

/// The chunk joins the table, as itself or as the one that was there first.  Its index node was reserved.
void Store::commit(Sequence &seq, OpenChunk &open, uint64_t chunk) {
  seq::Node node{};
  Ref ref = open.held;
  const bool own = !open.held;
  if (own) {
    KVC_CHECK(open.users.load(std::memory_order_acquire) == 1);
    if (!seq.is_private) {
      KVC_CHECK(name_chunk(seq, chunk));
      node.name = seq.names[chunk - seq.sealed];
    }
    node.flags = seq.is_private ? static_cast<uint32_t>(seq::node_unnamed) : 0;
    node.payload = reinterpret_cast<uint64_t>(open.data);
    write_chunk(seq, open, chunk, node.name);
  }
  std::lock_guard lock(mutex_);
  const Ref parent = chunk ? seq.table->refs[chunk - 1] : Ref{};
  if (own && !seq.is_private && !(ref = index_->find_child(node.name, parent))) {
    // Who failed its check has no name any more, nor has who left it to us: what comes after them can be found by nobody, and what came after
    // them leaves its name to what can.
    if (parent && (!index_->held(parent) || index_->node(parent).flags & seq::node_unnamed)) node.flags |= seq::node_unnamed;
    else if (const Ref orphan = index_->find(node.name)) index_->unname(orphan);
  }
  if (ref) {  // somebody was first, and wins whole
    index_->unreserve(1);
    index_->pin(ref);
  } else {
    node.tick = next_tick();
    ref = index_->insert(node, parent, owner_of(open.slot, *seq.scope));
    Scope &scope = *seq.scope;
    scope.settle(clock_.now_ns());
    scope.bytes_host += slab_.bytes(open.slot);
    scope.chunk_count++;
    open_bytes_.fetch_sub(slab_.bytes(open.slot), std::memory_order_relaxed);
    open.slot = {};  // the node's now
  }
  open_chunk_unref(&open);
  // The new tip holds all before it.
  if (seq.pinned) index_->unpin(seq.pinned, next_tick(), false);
  seq.pinned = ref;
  seq.table->refs.push_back(ref);
}

void Store::seal(Sequence &seq, uint64_t sealed) {
  const uint64_t count = sealed - seq.sealed;
  for (uint64_t i = 0; i < count; i++) {
    OpenChunk *open = seq.open[i];
    seq.open[i] = nullptr;
    commit(seq, *open, seq.sealed + i);
  }
  seq.open.erase(seq.open.begin(), seq.open.begin() + static_cast<int64_t>(count));
  seq.ids.erase(seq.ids.begin(), seq.ids.begin() + static_cast<int64_t>(std::min<uint64_t>(seq.ids.size(), count * seq.chunk_tokens())));
  seq.names.erase(seq.names.begin(), seq.names.begin() + static_cast<int64_t>(std::min<uint64_t>(seq.names.size(), count)));
  seq.sealed = seq.held = sealed;
  use(seq);              // no chunk was used later than its sequence
  queues_.room_freed();  // of open chunks
}

}  // namespace kvc::store
