#include <towpath/shmem/change.h>

namespace towpath::shmem {
namespace {

template <typename T>
T apply_to(T& value, const Change& change) {
  const std::atomic_ref<T> word(value);
  const T operand = from_bits<T>(change.operand);
  switch (change.op) {
    case ChangeOp::fetch: break;
    case ChangeOp::swap: return apply<ChangeOp::swap>(word, operand);
    case ChangeOp::add: return apply<ChangeOp::add>(word, operand);
    case ChangeOp::compare_swap:
      return apply<ChangeOp::compare_swap>(word, operand, from_bits<T>(change.expected));
    case ChangeOp::bit_and: return apply<ChangeOp::bit_and>(word, operand);
    case ChangeOp::bit_or: return apply<ChangeOp::bit_or>(word, operand);
    case ChangeOp::bit_xor: return apply<ChangeOp::bit_xor>(word, operand);
  }
  return apply<ChangeOp::fetch>(word, operand);
}

}  // namespace

std::uint64_t apply(std::byte* word, const Change& change) {
  return change.word_bytes == 4 ? apply_to(*reinterpret_cast<std::uint32_t*>(word), change)
                                : apply_to(*reinterpret_cast<std::uint64_t*>(word), change);
}

}  // namespace towpath::shmem
