// The recurrence's view of a controller over groups of units, forward and backward.
//
// Virtual functions let every controller meet every memory without a separate compilation. One call
// covers many units, so its cost is negligible.
#pragma once

#include "split.h"
#include "tiles.h"
#include "workspace.h"


namespace unbounded {

template <class T>
class ControllerForward {
 public:
  virtual ~ControllerForward() = default;
  virtual void take_scratch(Workspace& space, int64_t threads) = 0;
  virtual void pack(Share groups) = 0;
  // Writes the x part of some steps into the gates buffer.
  virtual void project(int64_t first_step, int64_t steps, Share groups, Share entries,
                       int64_t thread) = 0;
  virtual void step(int64_t t, Share groups, Share entries, int64_t thread) = 0;
  virtual void keep_state(int64_t b) = 0;
};

template <class T>
class ControllerBackward {
 public:
  virtual ~ControllerBackward() = default;
  virtual void take_scratch(Workspace& space, int64_t threads) = 0;
  virtual void pack(Share units, Share columns) = 0;
  virtual void begin(int64_t b) = 0;
  // Maps gradients of the instructions to those of the gates, for groups of units.
  virtual void step(int64_t t, Share groups, Share entries, int64_t thread) = 0;
  // Maps those to r_{t-1} and h_{t-1}, for groups of columns; those of the read vector come first.
  virtual void before(int64_t t, Share groups, Share entries, int64_t thread) = 0;
  virtual void end(int64_t b) = 0;
  virtual T* grad_read_vector(int64_t b) = 0;
};

// Batch entries whose products are computed before their cells: many, so that weights are read
// rarely, and few, so that the products stay in a near cache.
constexpr int64_t rows_at_once = 5 * UNBOUNDED_MAX_ROWS;

// Rows whose x part is computed at once in tiles.
constexpr int64_t rows_in_tiles = 10 * tile_height;

// Steps whose x part is computed at once: enough rows for the weights to be worth reading, few
// enough for the sums to stay in a near cache until their step.
inline int64_t steps_at_once(Share entries) {
  return std::max<int64_t>(1, 12 * UNBOUNDED_MAX_ROWS / std::max<int64_t>(1, entries.count()));
}

template <class Body>
inline void for_chunks(Share entries, Body body) {
  const int64_t chunks = (entries.count() + rows_at_once - 1) / rows_at_once;
  for (int64_t i = 0; i < chunks; ++i) {
    const Share chunk = share_of(entries.count(), i, chunks);
    body(Share{entries.begin + chunk.begin, entries.begin + chunk.end});
  }
}

// The same if rows are rounded into limited room; otherwise all rows at once.
template <class T, class Body>
inline void for_chunks_in_tiles(const Frame<T>& f, Share entries, Body body) {
  f.in_tiles() ? for_chunks(entries, body) : body(entries);
}

}  // namespace unbounded
