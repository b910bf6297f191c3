/** Laws of the graph's layout and of how a big graph is folded; `test_dashboard_modules.py` runs them. */
import assert from "node:assert/strict";
import test from "node:test";

import { MAX_DRAWN, edgesBetween, fold } from "../../../../eventflink/rest/dashboard/graph/folding.js";
import { layout } from "../../../../eventflink/rest/dashboard/graph/layout.js";

const SIZE = { width: 200, height: 60, along: 80, across: 20 };
const named = (...ids) => ids.map((id) => ({ id }));
const edges = (...pairs) => pairs.map(([source, target]) => ({ source, target }));

/** A graph of `count` vertices whose edges go from earlier ones to later ones, the same for the same seed. */
function anyGraph(count, each, seed) {
  let state = seed;
  const next = (below) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * below);
  };
  const ids = Array.from({ length: count }, (_, index) => `v${index}`);
  const found = [];
  for (let target = 1; target < count; target += 1) {
    for (let edge = 0; edge < each; edge += 1) found.push([ids[next(target)], ids[target]]);
  }
  return { ids, edges: edges(...found) };
}

test("a reader lies behind each of its writers", () => {
  const graph = anyGraph(80, 2, 7);
  const placed = new Map(layout(graph.ids.map((id) => ({ id })), graph.edges, SIZE).nodes.map((node) => [node.id, node]));
  for (const { source, target } of graph.edges) assert.ok(placed.get(source).x + SIZE.width < placed.get(target).x);
});

test("no two vertices overlap, whatever the graph", () => {
  for (let seed = 1; seed <= 20; seed += 1) {
    const graph = anyGraph(40, 1 + (seed % 3), seed);
    const { nodes, width, height } = layout(graph.ids.map((id) => ({ id })), graph.edges, SIZE);
    for (const [index, one] of nodes.entries()) {
      assert.ok(one.x >= 0 && one.y >= -1e-6 && one.x + SIZE.width <= width && one.y + SIZE.height <= height + 1e-6);
      for (const other of nodes.slice(index + 1)) {
        assert.ok(one.x !== other.x || Math.abs(one.y - other.y) >= SIZE.height + SIZE.across - 1e-6, `${one.id} and ${other.id}, seed ${seed}`);
      }
    }
  }
});

test("two chains beside each other are drawn without crossing", () => {
  const { nodes } = layout(named("a", "b", "c", "d"), edges(["a", "d"], ["b", "c"]), SIZE);
  const y = Object.fromEntries(nodes.map((node) => [node.id, node.y]));
  assert.equal(Math.sign(y.a - y.b), Math.sign(y.d - y.c));
});

test("a vertex with one writer lies straight behind it, also where another edge passes by", () => {
  const { nodes } = layout(named("extract", "clean", "dimensions", "join"), edges(["extract", "clean"], ["clean", "join"], ["dimensions", "join"]), SIZE);
  const y = Object.fromEntries(nodes.map((node) => [node.id, node.y]));
  assert.ok(Math.abs(y.extract - y.clean) < 1e-6);
});

test("an edge that skips a layer bends around the vertex between", () => {
  const drawn = layout(named("a", "b", "c"), edges(["a", "b"], ["b", "c"], ["a", "c"]), SIZE);
  const long = drawn.edges.find((edge) => edge.source === "a" && edge.target === "c");
  const between = drawn.nodes.find((node) => node.id === "b");
  const bend = long.points[1];
  assert.equal(long.points.length, 4);
  assert.ok(bend.y < between.y || bend.y > between.y + SIZE.height);
});

test("downwards is the same layout turned", () => {
  const drawn = layout(named("a", "b"), edges(["a", "b"]), { ...SIZE, down: true });
  assert.deepEqual(drawn.nodes.map(({ x, y }) => [x, y]), [[0, 0], [0, SIZE.height + SIZE.along]]);
});

test("a graph with nothing in it, and one with a cycle, are drawn", () => {
  assert.deepEqual(layout([], [], SIZE).nodes, []);
  assert.equal(layout(named("a", "b"), edges(["a", "b"], ["b", "a"]), SIZE).nodes.length, 2);
});

test("a graph that is small enough is not folded", () => {
  assert.deepEqual(fold(["a", "b"], edges(["a", "b"])), [{ id: "a", members: ["a"] }, { id: "b", members: ["b"] }]);
});

test("vertices with the same neighbours fold first", () => {
  const readers = Array.from({ length: 9 }, (_, index) => `reader${index}`);
  const groups = fold(["source", ...readers, "sink"], edges(...readers.flatMap((each) => [["source", each], [each, "sink"]])), 5);
  assert.deepEqual(groups.map((group) => group.members), [["source"], readers, ["sink"]]);
});

test("a chain folds to one group", () => {
  const ids = Array.from({ length: 12 }, (_, index) => `step${index}`);
  const groups = fold(ids, edges(...ids.slice(1).map((id, index) => [ids[index], id])), 5);
  assert.deepEqual(groups, [{ id: "step0", members: ids }]);
});

test("a thousand vertices with ten thousand edges fold to what can be drawn, keep each vertex once, and have no cycle", () => {
  const graph = anyGraph(1000, 10, 3);
  const groups = fold(graph.ids, graph.edges);
  assert.ok(groups.length <= MAX_DRAWN);
  assert.deepEqual(groups.flatMap((group) => group.members).sort(), [...graph.ids].sort());
  const between = edgesBetween(groups, graph.edges);
  const drawn = layout(groups, between, SIZE);
  const x = new Map(drawn.nodes.map((node) => [node.id, node.x]));
  for (const { source, target } of between) assert.ok(x.get(source) < x.get(target));
});
