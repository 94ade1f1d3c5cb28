// ObjectShelf: what can be done to the objects of a store by no transfer: saying which there are,
// and taking one away. Whoever opens a tier of objects brings one (standard/object_place.h); kv
// knows no store.
//
// Each question is answered once, in progress(), unless the shelf dies before. Thread: that of the
// tier that has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::kv {

struct ShelfObject {
  std::string key;
  std::uint64_t bytes = 0;
  std::string modified;  ///< as text in the order of time
};

struct ShelfPage {
  std::vector<ShelfObject> objects;
  std::string next;  ///< to ask for the next page with; empty: this is the last
};

class ObjectShelf {
 public:
  using Listed = std::function<void(Result<ShelfPage>)>;
  using Removed = std::function<void(Status)>;

  virtual ~ObjectShelf() = default;

  /// A page of the objects whose keys begin with `prefix`. `next` is that of the page before;
  /// empty: from the beginning.
  virtual void list(const std::string& prefix, const std::string& next, Listed listed) = 0;
  /// An object that is not there is no error.
  virtual void remove(const std::string& key, Removed removed) = 0;
  /// Whether it did something.
  virtual bool progress() = 0;
};

}  // namespace towpath::kv
