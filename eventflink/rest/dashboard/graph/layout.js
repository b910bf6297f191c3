// @ts-check
// Where the vertices and edges of a job's graph are drawn.
//
// Layers by longest path, crossings reduced by barycentres, rows by the mean of their neighbours. Pure: plain values in, plain values out,
// the same answer for the same graph. A graph never changes, so its layout is computed once; what it shows changes in place.

/** @typedef {{id: string}} GraphNode */
/** @typedef {{source: string, target: string}} GraphEdge */
/** @typedef {{id: string, x: number, y: number, layer: number}} PlacedNode */
/** @typedef {{x: number, y: number}} Point */
/** @typedef {{source: string, target: string, points: Point[]}} PlacedEdge */
/** @typedef {{width: number, height: number, nodes: PlacedNode[], edges: PlacedEdge[], layers: string[][]}} Layout */
/** @typedef {{edge: GraphEdge, first: Cell, bends: Cell[], last: Cell}} Chain the ends of an edge, and a bend in each layer that it skips */
/** @typedef {{id: string, layer: number, before: Cell[], after: Cell[], position: number, real: boolean}} Cell */

const SWEEPS = 8;
/** An odd number: the last round has a reader beside what it reads, so that a chain is straight. */
const SETTLING = 13;
/** An edge that skips layers bends around what is between; so many bends at most, then edges are straight. */
const MAX_BENDS = 2000;

/**
 * @param {readonly GraphNode[]} nodes
 * @param {readonly GraphEdge[]} edges with both ends among the nodes; doubles are drawn once
 * @param {{width: number, height: number, along: number, across: number, down?: boolean}} size of a node, and the gaps along and across
 * @returns {Layout}
 */
export function layout(nodes, edges, size) {
  const down = size.down ?? false;
  const unique = uniqueEdges(nodes, edges);
  const layerOf = longestPaths(nodes, unique);
  const { layers, chains } = cells(nodes, unique, layerOf);
  reduceCrossings(layers);
  const breadth = down ? size.width : size.height;
  const along = down ? size.height + size.along : size.width + size.along;
  settle(layers, (one, other) => (room(one, breadth) + room(other, breadth)) / 2 + (one.real || other.real ? size.across : size.across / 2));
  const lowest = Math.min(Infinity, ...layers.flat().map((cell) => cell.position - (cell.real ? breadth / 2 : 0)));
  const depth = down ? size.height : size.width;
  const at = (/** @type {number} */ far, /** @type {number} */ side) => (down ? { x: side, y: far } : { x: far, y: side });
  /** @type {Map<string, PlacedNode>} */
  const placed = new Map();
  let widest = 0;
  for (const cell of layers.flat()) {
    cell.position -= lowest;
    widest = Math.max(widest, cell.position + (cell.real ? breadth / 2 : 0));
    if (cell.real) placed.set(cell.id, { id: cell.id, layer: cell.layer, ...at(cell.layer * along, cell.position - breadth / 2) });
  }
  const length = layers.length > 0 ? (layers.length - 1) * along + depth : 0;
  const drawn = chains.map(({ edge, first, bends, last }) => {
    const begins = (/** @type {Cell} */ cell) => at(cell.layer * along, cell.position);
    const ends = (/** @type {Cell} */ cell) => at(cell.layer * along + depth, cell.position);
    return { source: edge.source, target: edge.target, points: [ends(first), ...bends.flatMap((bend) => [begins(bend), ends(bend)]), begins(last)] };
  });
  const named = layers.map((layer) => layer.filter((cell) => cell.real).map((cell) => cell.id));
  const [width, height] = down ? [widest, length] : [length, widest];
  return { width, height, nodes: nodes.map(({ id }) => /** @type {PlacedNode} */ (placed.get(id))), edges: drawn, layers: named };
}

/**
 * How many nodes lie on the longest path.
 *
 * @param {readonly GraphNode[]} nodes
 * @param {readonly GraphEdge[]} edges
 */
export function depthOf(nodes, edges) {
  let deepest = -1;
  for (const layer of longestPaths(nodes, uniqueEdges(nodes, edges)).values()) deepest = Math.max(deepest, layer);
  return deepest + 1;
}

/**
 * @param {readonly GraphNode[]} nodes
 * @param {readonly GraphEdge[]} edges
 * @returns {GraphEdge[]}
 */
function uniqueEdges(nodes, edges) {
  const known = new Set(nodes.map((node) => node.id));
  /** @type {Map<string, GraphEdge>} */
  const found = new Map();
  for (const { source, target } of edges) {
    if (source !== target && known.has(source) && known.has(target)) found.set(JSON.stringify([source, target]), { source, target });
  }
  return [...found.values()];
}

/**
 * The layer of each node: one behind the last of those that it reads from. What is on a cycle stays in the first one.
 *
 * @param {readonly GraphNode[]} nodes
 * @param {readonly GraphEdge[]} edges
 * @returns {Map<string, number>}
 */
function longestPaths(nodes, edges) {
  const layerOf = new Map(nodes.map((node) => [node.id, 0]));
  const waitsFor = new Map(nodes.map((node) => [node.id, 0]));
  /** @type {Map<string, string[]>} */
  const after = new Map();
  for (const { source, target } of edges) {
    waitsFor.set(target, (waitsFor.get(target) ?? 0) + 1);
    after.set(source, [...(after.get(source) ?? []), target]);
  }
  const ready = nodes.filter((node) => waitsFor.get(node.id) === 0).map((node) => node.id);
  // What is pushed while it is walked is walked as well.
  for (const next of ready) {
    const behind = (layerOf.get(next) ?? 0) + 1;
    for (const target of after.get(next) ?? []) {
      layerOf.set(target, Math.max(layerOf.get(target) ?? 0, behind));
      const left = (waitsFor.get(target) ?? 0) - 1;
      waitsFor.set(target, left);
      if (left === 0) ready.push(target);
    }
  }
  return layerOf;
}

/**
 * The nodes by layer, and for each edge the cells that it goes through.
 *
 * @param {readonly GraphNode[]} nodes
 * @param {readonly GraphEdge[]} edges
 * @param {Map<string, number>} layerOf
 * @returns {{layers: Cell[][], chains: Chain[]}}
 */
function cells(nodes, edges, layerOf) {
  /** @type {Map<string, Cell>} */
  const byId = new Map();
  /** @type {Cell[][]} */
  const layers = [];
  const place = (/** @type {string} */ id, /** @type {number} */ layer, /** @type {boolean} */ real) => {
    /** @type {Cell} */
    const cell = { id, layer, before: [], after: [], position: 0, real };
    while (layers.length <= layer) layers.push([]);
    layers[layer]?.push(cell);
    return cell;
  };
  for (const { id } of nodes) byId.set(id, place(id, layerOf.get(id) ?? 0, true));
  const layer = (/** @type {string} */ id) => layerOf.get(id) ?? 0;
  const skipped = edges.reduce((sum, { source, target }) => sum + Math.max(0, layer(target) - layer(source) - 1), 0);
  const chains = edges.map((edge) => {
    const [first, last] = [/** @type {Cell} */ (byId.get(edge.source)), /** @type {Cell} */ (byId.get(edge.target))];
    /** @type {Cell[]} */
    const bends = [];
    for (let between = first.layer + 1; skipped <= MAX_BENDS && between < last.layer; between += 1) bends.push(place("", between, false));
    let before = first;
    for (const cell of [...bends, last]) {
      before.after.push(cell);
      cell.before.push(before);
      before = cell;
    }
    return { edge, first, bends, last };
  });
  return { layers, chains };
}

/** @param {Cell[][]} layers */
function reduceCrossings(layers) {
  const order = (/** @type {Cell[]} */ layer) => layer.forEach((cell, index) => (cell.position = index));
  layers.forEach(order);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    for (const layer of forward ? layers : [...layers].reverse()) {
      const wish = new Map(layer.map((cell) => [cell, mean(forward ? cell.before : cell.after, cell.position)]));
      layer.sort((one, other) => (wish.get(one) ?? 0) - (wish.get(other) ?? 0));
      order(layer);
    }
  }
}

/** What a cell takes of its layer: a bend is a line. @param {Cell} cell @param {number} breadth of a node */
function room(cell, breadth) {
  return cell.real ? breadth : 0;
}

/**
 * Give each cell a position, of its middle, near the mean of its neighbours, in the order that its layer has.
 *
 * @param {Cell[][]} layers
 * @param {(one: Cell, other: Cell) => number} apart how far the middles of two that follow each other are apart, at least
 */
function settle(layers, apart) {
  const offsets = new Map(layers.map((layer) => [layer, offsetsOf(layer, apart)]));
  const longest = Math.max(0, ...[...offsets.values()].map((each) => each.at(-1) ?? 0));
  for (const [layer, offset] of offsets) {
    const begin = (longest - (offset.at(-1) ?? 0)) / 2;
    layer.forEach((cell, index) => (cell.position = begin + (offset[index] ?? 0)));
  }
  for (let round = 0; round < SETTLING; round += 1) {
    for (const layer of round % 2 === 0 ? layers : [...layers].reverse()) {
      const neighbours = (/** @type {Cell} */ cell) => (round % 2 === 0 ? cell.before : cell.after);
      const wish = layer.map((cell) => mean(neighbours(cell), cell.position));
      keepApart(layer, wish, offsets.get(layer) ?? []);
    }
  }
}

/** Where each cell of a layer lies from its first, as near to each other as they may. @param {Cell[]} layer
 * @param {(one: Cell, other: Cell) => number} apart */
function offsetsOf(layer, apart) {
  let offset = 0;
  return layer.map((cell, index) => {
    const before = layer[index - 1];
    if (before) offset += apart(before, cell);
    return offset;
  });
}

/**
 * The positions nearest to what each cell wishes that keep the order and the distances: cells that would overlap share the mean of their wishes.
 *
 * @param {Cell[]} layer
 * @param {number[]} wish
 * @param {number[]} offsets
 */
function keepApart(layer, wish, offsets) {
  /** @type {{sum: number, count: number}[]} */
  const blocks = [];
  wish.forEach((each, index) => {
    let block = { sum: each - (offsets[index] ?? 0), count: 1 };
    for (let last = blocks.at(-1); last && last.sum / last.count > block.sum / block.count; last = blocks.at(-1)) {
      block = { sum: last.sum + block.sum, count: last.count + block.count };
      blocks.pop();
    }
    blocks.push(block);
  });
  let index = 0;
  for (const { sum, count } of blocks) {
    for (const cell of layer.slice(index, index + count)) {
      cell.position = sum / count + (offsets[index] ?? 0);
      index += 1;
    }
  }
}

/**
 * @param {Cell[]} neighbours
 * @param {number} otherwise
 */
function mean(neighbours, otherwise) {
  return neighbours.length > 0 ? neighbours.reduce((sum, cell) => sum + cell.position, 0) / neighbours.length : otherwise;
}
