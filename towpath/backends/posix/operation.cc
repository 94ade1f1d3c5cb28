#include <towpath/backends/posix/dispatcher.h>
#include <towpath/backends/posix/operation.h>
#include <towpath/core/check.h>

namespace towpath::backends::posix {

PosixOperation::~PosixOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void PosixOperation::post(const backend::Request& request) {
  TOWPATH_CHECK(!active_, "an operation carries one transfer at a time");
  dispatcher_.start(*this, request);
}

void PosixOperation::cancel() { dispatcher_.cancel(*this); }

void OperationQueue::push_back(PosixOperation& operation) noexcept {
  operation.queued_ = true;
  operation.next_ = nullptr;
  operation.previous_ = back_;
  (back_ == nullptr ? front_ : back_->next_) = &operation;
  back_ = &operation;
  ++size_;
}

void OperationQueue::remove(PosixOperation& operation) noexcept {
  if (!operation.queued_) return;
  operation.queued_ = false;
  (operation.previous_ == nullptr ? front_ : operation.previous_->next_) = operation.next_;
  (operation.next_ == nullptr ? back_ : operation.next_->previous_) = operation.previous_;
  --size_;
}

void OperationQueue::rotate() noexcept {
  if (size_ < 2) return;
  PosixOperation& operation = *front_;
  remove(operation);
  push_back(operation);
}

}  // namespace towpath::backends::posix
