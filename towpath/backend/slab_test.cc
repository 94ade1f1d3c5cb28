#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/backend.h>
#include <towpath/backend/slab.h>

namespace towpath::backend {
namespace {

struct Counted final : InSlab<Counted, Memory> {
  Counted(Slab<Counted>& slab, int& how_many) : InSlab(slab), count(how_many) { ++count; }
  ~Counted() override { --count; }
  int& count;
};

TEST(SlabTest, what_goes_leaves_its_room_to_the_next_one) {
  Slab<Counted> slab;
  int count = 0;
  std::vector<std::unique_ptr<Memory>> all;
  for (int i = 0; i < 100; ++i) all.emplace_back(new (slab) Counted(slab, count));
  EXPECT_EQ(count, 100);
  const Memory* const gone = all[40].get();
  all[40].reset();
  EXPECT_EQ(count, 99);
  std::unique_ptr<Memory> next(new (slab) Counted(slab, count));
#if !defined(TOWPATH_ASAN)  // there each has a room of its own
  EXPECT_EQ(next.get(), gone);
#else
  (void)gone;
#endif
  all.clear();
  next.reset();
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace towpath::backend
