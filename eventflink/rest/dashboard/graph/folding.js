// @ts-check
// A graph with too many vertices to be read, folded to groups that can be.
//
// First vertices with the same readers and writers become one group, then chains do, until there are few enough; what is still too wide is
// cut by layers. Pure. A group keeps the ids of its vertices, so its counts are the sums of theirs, and one can still choose each of them.

/** @typedef {{source: string, target: string}} GraphEdge */
/** @typedef {{id: string, members: string[]}} Group */

export const MAX_DRAWN = 150;

/**
 * @param {readonly string[]} ids
 * @param {readonly GraphEdge[]} edges
 * @param {number} [most]
 * @returns {Group[]} in the order of their first vertices; the id of a group is that of its first vertex
 */
export function fold(ids, edges, most = MAX_DRAWN) {
  /** @type {Map<string, string>} */
  const groupOf = new Map(ids.map((id) => [id, id]));
  let groups = gather(ids, groupOf);
  while (groups.length > most) {
    const before = groups.length;
    for (const merge of [likeNeighbours, chains]) {
      if (groups.length > most) {
        merge(groups, neighboursOf(groups, edges, groupOf), groupOf);
        groups = gather(ids, groupOf);
      }
    }
    if (groups.length === before) break;
  }
  if (groups.length > most) {
    slices(groups, edges, groupOf, most);
    groups = gather(ids, groupOf);
  }
  return groups;
}

/**
 * The edges between groups: those between their vertices, without what stays inside.
 *
 * @template {GraphEdge} E
 * @param {readonly Group[]} groups
 * @param {readonly E[]} edges
 * @returns {(GraphEdge & {edges: E[]})[]}
 */
export function edgesBetween(groups, edges) {
  const groupOf = new Map(groups.flatMap((group) => group.members.map((member) => [member, group.id])));
  /** @type {Map<string, GraphEdge & {edges: E[]}>} */
  const found = new Map();
  for (const edge of edges) {
    const [source, target] = [groupOf.get(edge.source), groupOf.get(edge.target)];
    if (source === undefined || target === undefined || source === target) continue;
    const key = JSON.stringify([source, target]);
    const known = found.get(key);
    if (known) known.edges.push(edge);
    else found.set(key, { source, target, edges: [edge] });
  }
  return [...found.values()];
}

/**
 * @param {readonly string[]} ids
 * @param {Map<string, string>} groupOf
 * @returns {Group[]}
 */
function gather(ids, groupOf) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const id of ids) {
    const name = groupOf.get(id) ?? id;
    const group = groups.get(name);
    if (group) group.members.push(id);
    else groups.set(name, { id: name, members: [id] });
  }
  // A merge keeps the name of one of its groups; the first vertex names it for good.
  for (const group of groups.values()) {
    group.id = group.members[0] ?? group.id;
    for (const member of group.members) groupOf.set(member, group.id);
  }
  return [...groups.values()];
}

/**
 * @param {readonly Group[]} groups
 * @param {readonly GraphEdge[]} edges
 * @param {Map<string, string>} groupOf
 */
function neighboursOf(groups, edges, groupOf) {
  const before = new Map(groups.map((group) => [group.id, /** @type {Set<string>} */ (new Set())]));
  const after = new Map(groups.map((group) => [group.id, /** @type {Set<string>} */ (new Set())]));
  for (const edge of edges) {
    const [source, target] = [groupOf.get(edge.source), groupOf.get(edge.target)];
    if (source === undefined || target === undefined || source === target) continue;
    before.get(target)?.add(source);
    after.get(source)?.add(target);
  }
  return { before, after };
}

/** @typedef {ReturnType<typeof neighboursOf>} Neighbours */

/**
 * @param {Map<string, string>} groupOf
 * @param {readonly Group[]} groups
 * @param {(group: Group) => string} nameOf
 */
function rename(groupOf, groups, nameOf) {
  for (const group of groups) for (const member of group.members) groupOf.set(member, nameOf(group));
}

/**
 * @param {readonly Group[]} groups
 * @param {Neighbours} neighbours
 * @param {Map<string, string>} groupOf
 */
function likeNeighbours(groups, { before, after }, groupOf) {
  const likeness = (/** @type {Group} */ group) => JSON.stringify([before, after].map((side) => [...(side.get(group.id) ?? [])].sort()));
  /** @type {Map<string, string>} */
  const first = new Map();
  for (const group of groups) if (!first.has(likeness(group))) first.set(likeness(group), group.id);
  rename(groupOf, groups, (group) => first.get(likeness(group)) ?? group.id);
}

/**
 * @param {readonly Group[]} groups
 * @param {Neighbours} neighbours
 * @param {Map<string, string>} groupOf
 */
function chains(groups, { before, after }, groupOf) {
  const alone = (/** @type {Set<string> | undefined} */ side) => (side?.size === 1 ? [...side][0] : undefined);
  const previous = (/** @type {string} */ id) => {
    const writer = alone(before.get(id));
    return writer !== undefined && alone(after.get(writer)) === id ? writer : undefined;
  };
  const headOf = (/** @type {string} */ id) => {
    let head = id;
    for (let step = previous(head), left = groups.length; step !== undefined && left > 0; step = previous(head), left -= 1) head = step;
    return head;
  };
  const heads = new Map(groups.map((group) => [group.id, headOf(group.id)]));
  rename(groupOf, groups, (group) => heads.get(group.id) ?? group.id);
}

/**
 * Cut what is left into slices along its longest path: neighbours in that order share a slice, so edges between slices go one way.
 *
 * @param {readonly Group[]} groups
 * @param {readonly GraphEdge[]} edges
 * @param {Map<string, string>} groupOf
 * @param {number} most
 */
function slices(groups, edges, groupOf, most) {
  const { before, after } = neighboursOf(groups, edges, groupOf);
  const layerOf = new Map(groups.map((group) => [group.id, 0]));
  const waitsFor = new Map(groups.map((group) => [group.id, before.get(group.id)?.size ?? 0]));
  const ready = groups.filter((group) => waitsFor.get(group.id) === 0).map((group) => group.id);
  // What is pushed while it is walked is walked as well.
  for (const next of ready) {
    for (const target of after.get(next) ?? []) {
      layerOf.set(target, Math.max(layerOf.get(target) ?? 0, (layerOf.get(next) ?? 0) + 1));
      waitsFor.set(target, (waitsFor.get(target) ?? 0) - 1);
      if (waitsFor.get(target) === 0) ready.push(target);
    }
  }
  const ordered = [...groups].sort((one, other) => (layerOf.get(one.id) ?? 0) - (layerOf.get(other.id) ?? 0));
  const sliceOf = new Map(ordered.map((group, index) => [group.id, Math.floor((index * most) / ordered.length)]));
  rename(groupOf, groups, (group) => `slice ${sliceOf.get(group.id)}`);
}
