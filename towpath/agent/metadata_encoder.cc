#include <algorithm>
#include <utility>

#include <towpath/agent/metadata_encoder.h>

namespace towpath::agent {

void MetadataEncoder::advertise(std::size_t instance) {
  instances_ |= instance_bit(instance);
  numbers_[instance] = advertised_instances_++;
}

void MetadataEncoder::read(const MemoryRecord& record, TableRow& row) const {
  row.region = &record.region;
  row.keys.clear();
  record.own->keys.each([&](std::size_t instance, ConstByteSpan key) {
    if (advertises(instance)) row.keys.emplace_back(numbers_[instance], key);
  });
}

TableRow MetadataEncoder::row_of(const MemoryRecord& record) const {
  TableRow row;
  read(record, row);
  return row;
}

void MetadataEncoder::add(MemoryRecord& record) {
  if (!advertises(record)) return;
  read(record, row_);
  if (check_row(row_).ok()) {
    write_row_of(record);
  } else {
    unfit_.push_back(&record);
  }
}

// Regions mostly come one after the other: what was read of the last one is what the next one is
// written against.
void MetadataEncoder::write_row_of(MemoryRecord& record) {
  const MemoryRecord* const last = rows_.empty() ? nullptr : rows_.back().record;
  if (last == nullptr) {
    before_ = {};
  } else if (last != before_of_) {
    read(*last, before_);
  }
  table_.add(row_, before_);
  record.own->row = rows_.size();
  rows_.push_back({&record, table_.bytes().size()});
  std::swap(row_, before_);
  before_of_ = &record;
}

void MetadataEncoder::write(MemoryRecord& record) {
  read(record, row_);
  write_row_of(record);
}

void MetadataEncoder::remove(MemoryRecord& record) {
  if (before_of_ == &record) before_of_ = nullptr;
  const std::size_t row = std::exchange(record.own->row, OwnPart::kNoRow);
  if (row == OwnPart::kNoRow) {
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

/// Rows that were written one against the other, the first of them against what is the last one
/// now.
void MetadataEncoder::copy_behind(std::span<const Row> rows, const Written& before) {
  if (rows.empty()) return;
  const std::size_t begin = end_of_rows();
  const auto size = static_cast<std::size_t>(rows.back().end - before.begin);
  table_.add_written({before.bytes, size});
  for (const Row& row : rows) {
    row.record->own->row = rows_.size();
    rows_.push_back({row.record, begin + (row.end - before.begin)});
  }
}

void MetadataEncoder::close_gaps() {
  if (first_gap_ == kNone) return;
  const std::vector<Row> behind(rows_.begin() + static_cast<std::ptrdiff_t>(first_gap_),
                                rows_.end());
  rows_.resize(first_gap_);
  const std::size_t begin = end_of_rows();
  const ConstByteSpan bytes = table_.bytes().subspan(begin);
  const Bytes written(bytes.begin(), bytes.end());
  table_.cut(begin);
  const auto is_gap = [](const Row& row) { return row.record == nullptr; };
  for (auto next = behind.begin(); next != behind.end();) {
    next = std::find_if_not(next, behind.end(), is_gap);
    if (next == behind.end()) break;
    write(*next->record);  // against another one than before
    const auto first = next + 1;
    next = std::find_if(first, behind.end(), is_gap);
    const std::size_t end = std::prev(first)->end;
    copy_behind({first, next}, {.bytes = written.data() + (end - begin), .begin = end});
  }
  first_gap_ = kNone;
  gaps_ = 0;
}

Result<ConstByteSpan> MetadataEncoder::table() {
  if (!unfit_.empty()) return check_row(row_of(*unfit_.front()));
  close_gaps();
  TOWPATH_TRY(check_rows(rows_.size()));
  return table_.bytes();
}

Result<Bytes> MetadataEncoder::table_of(std::span<const MemoryRecord* const> records) const {
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
