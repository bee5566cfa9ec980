// Boost's R-tree behind two C functions, for bench_matching.py.
//
// Boxes have DIMENSIONS closed ranges of doubles; a query finds the numbers of the boxes that hold
// a point.  The tree is bulk-loaded, which packs it (sort-tile-recursive), as ours is.

#include <boost/geometry.hpp>
#include <boost/geometry/geometries/box.hpp>
#include <boost/geometry/geometries/point.hpp>
#include <boost/geometry/index/rtree.hpp>
#include <boost/iterator/function_output_iterator.hpp>

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace bg = boost::geometry;
namespace bgi = boost::geometry::index;

constexpr std::size_t DIMENSIONS = 4;
// Of 8, 16 and 32 the fastest, or as fast.
constexpr std::size_t CHILDREN = 16;

using Point = bg::model::point<double, DIMENSIONS, bg::cs::cartesian>;
using Box = bg::model::box<Point>;
using Entry = std::pair<Box, std::int64_t>;
using Tree = bgi::rtree<Entry, bgi::rstar<CHILDREN>>;

static Point point_at(const double* coordinates) {
    Point point;
    bg::set<0>(point, coordinates[0]);
    bg::set<1>(point, coordinates[1]);
    bg::set<2>(point, coordinates[2]);
    bg::set<3>(point, coordinates[3]);
    return point;
}

extern "C" {

// A tree of the boxes low[i], high[i], each DIMENSIONS doubles; null where memory does not suffice.
// It lives as long as the process.
void* tree_of(const double* low, const double* high, std::int64_t boxes) noexcept {
    try {
        std::vector<Entry> entries;
        entries.reserve(boxes);
        for (std::int64_t at = 0; at < boxes; ++at)
            entries.emplace_back(
                Box(point_at(low + at * DIMENSIONS), point_at(high + at * DIMENSIONS)), at);
        return new Tree(entries);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// Write the numbers of the boxes of each point one behind the other; those of point i end at
// ends[i].  Writes at most `room` numbers, but counts them all; returns how many there are.
std::int64_t find(const void* tree, const double* points, std::int64_t count, std::int64_t* ends,
                  std::int64_t* found, std::int64_t room) {
    const Tree& boxes = *static_cast<const Tree*>(tree);
    std::int64_t at = 0;
    const auto put = boost::make_function_output_iterator([&](const Entry& entry) {
        if (at < room) found[at] = entry.second;
        ++at;
    });
    for (std::int64_t point = 0; point < count; ++point) {
        boxes.query(bgi::intersects(point_at(points + point * DIMENSIONS)), put);
        ends[point] = at;
    }
    return at;
}

}
