#include <algorithm>
#include <utility>

#include <towpath/agent/own_rows.h>

namespace towpath::agent {

void OwnRows::tell_of(std::size_t slot) {
  slots_ |= slot_bit(slot);
  numbers_[slot] = told_slots_++;
}

void OwnRows::read(const MemoryRecord& record, TableRow& row) const {
  row.region = &record.region;
  row.keys.clear();
  record.keys.each([&](std::size_t slot, ConstByteSpan key) {
    if (tells_of(slot)) row.keys.emplace_back(numbers_[slot], key);
  });
}

TableRow OwnRows::row_of(const MemoryRecord& record) const {
  TableRow row;
  read(record, row);
  return row;
}

void OwnRows::add(MemoryRecord& record) {
  if (!tells_of(record)) return;
  read(record, row_);
  if (check_row(row_).ok()) {
    write(record);
  } else {
    unfit_.push_back(&record);
  }
}

void OwnRows::write(MemoryRecord& record) {
  read(record, row_);
  if (rows_.empty()) {
    before_.region = nullptr;
    before_.keys.clear();
  } else {
    read(*rows_.back().record, before_);
  }
  table_.add(row_, before_);
  record.row = rows_.size();
  rows_.push_back({&record, table_.bytes().size()});
}

void OwnRows::remove(MemoryRecord& record) {
  const std::size_t row = std::exchange(record.row, MemoryRecord::kNoRow);
  if (row == MemoryRecord::kNoRow) {
    std::erase(unfit_, &record);
    return;
  }
  rows_[row].record = nullptr;
  first_gap_ = std::min(first_gap_, row);
  ++gaps_;
  for (; !rows_.empty() && rows_.back().record == nullptr; --gaps_) rows_.pop_back();
  table_.cut(end_of_rows());
  if (first_gap_ >= rows_.size()) first_gap_ = kNone;
  constexpr std::size_t kFewGaps = 64;
  if (gaps_ > kFewGaps + rows_.size() / 2) close_gaps();
}

/// What was written against the row that is the last one now.
void OwnRows::copy_behind(ConstByteSpan row, MemoryRecord& record) {
  table_.add_written(row);
  record.row = rows_.size();
  rows_.push_back({&record, table_.bytes().size()});
}

void OwnRows::close_gaps() {
  if (first_gap_ == kNone) return;
  const std::vector<Row> behind(rows_.begin() + static_cast<std::ptrdiff_t>(first_gap_),
                                rows_.end());
  rows_.resize(first_gap_);
  const std::size_t begin = end_of_rows();
  const ConstByteSpan bytes = table_.bytes().subspan(begin);
  const Bytes written(bytes.begin(), bytes.end());
  table_.cut(begin);
  std::size_t at = 0;
  bool is_gap = false;
  for (const auto& [record, end] : behind) {
    const auto row = ConstByteSpan(written).subspan(at, end - begin - at);
    at += row.size();
    if (record != nullptr && is_gap) write(*record);
    if (record != nullptr && !is_gap) copy_behind(row, *record);
    is_gap = record == nullptr;
  }
  first_gap_ = kNone;
  gaps_ = 0;
}

Result<ConstByteSpan> OwnRows::table() {
  if (!unfit_.empty()) return check_row(row_of(*unfit_.front()));
  close_gaps();
  TOWPATH_TRY(check_rows(rows_.size()));
  return table_.bytes();
}

Result<Bytes> OwnRows::table_of(std::span<const MemoryRecord* const> records) const {
  TOWPATH_TRY(check_rows(records.size()));
  TableWriter table(records.size());
  TableRow before;
  for (const MemoryRecord* record : records) {
    TableRow row = row_of(*record);
    TOWPATH_TRY(check_row(row));
    table.add(row, before);
    before = std::move(row);
  }
  return std::move(table).finish();
}

}  // namespace towpath::agent
