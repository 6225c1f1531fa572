#include "sched/request_table.h"

#include <cassert>
#include <utility>

namespace vllm {

size_t RequestTable::home(RequestId id) const {
  const uint64_t mixed = id * 0x9E3779B97F4A7C15ull;
  return static_cast<size_t>(mixed >> 32) & (cells_.size() - 1);
}

size_t RequestTable::cell_of(RequestId id) const {
  size_t i = home(id);
  while (cells_[i].slot != kNoSlot && cells_[i].id != id) i = (i + 1) & (cells_.size() - 1);
  return i;
}

void RequestTable::grow() {
  std::vector<Cell> old = std::exchange(cells_, std::vector<Cell>(cells_.empty() ? 64 : 2 * cells_.size()));
  for (const Cell& cell : old) {
    if (cell.slot != kNoSlot) cells_[cell_of(cell.id)] = cell;
  }
}

Slot RequestTable::add(RequestId id) {
  if (2 * static_cast<size_t>(size_ + 1) > cells_.size()) grow();
  Slot slot;
  if (unused_.empty()) {
    slot = static_cast<Slot>(requests_.size());
    requests_.emplace_back();
    unused_.reserve(requests_.capacity());  // remove() must not allocate
  } else {
    slot = unused_.back();
    unused_.pop_back();
  }
  const size_t cell = cell_of(id);
  assert(cells_[cell].slot == kNoSlot);
  cells_[cell] = {id, slot};
  ++size_;
  return slot;
}

void RequestTable::remove(Slot slot) {
  size_t hole = cell_of((*this)[slot].id);
  assert(cells_[hole].slot == slot);
  // Later cells of the same run move up, so that no search stops at the hole too early.
  const size_t mask = cells_.size() - 1;
  for (size_t i = (hole + 1) & mask; cells_[i].slot != kNoSlot; i = (i + 1) & mask) {
    const size_t distance = (i - home(cells_[i].id)) & mask;
    if (distance >= ((i - hole) & mask)) {
      cells_[hole] = cells_[i];
      hole = i;
    }
  }
  cells_[hole] = {};
  unused_.push_back(slot);
  --size_;
}

Slot RequestTable::find(RequestId id) const { return cells_.empty() ? kNoSlot : cells_[cell_of(id)].slot; }

}  // namespace vllm
