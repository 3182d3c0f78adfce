/*
 * tree: a conversation is a tree of messages, of which one path is shown.
 *
 * Editing or regenerating adds a sibling and removes nothing. A message knows its parent (null: it is a first one);
 * whoever shows a conversation knows the last message of the path. `messages` is a Map by id, in order of creation.
 */

/* From the first message to `leaf`. */
export function pathTo(messages, leaf) {
  const path = [];
  for (let m = messages.get(leaf); m; m = messages.get(m.parent)) path.unshift(m);
  return path;
}

export function childrenOf(messages, parent) {
  return [...messages.values()].filter((m) => m.parent === parent);
}

/* The newest end below a message; with null, of the whole conversation. */
export function newestLeaf(messages, id) {
  for (;;) {
    const last = childrenOf(messages, id).at(-1);
    if (!last) return id;
    id = last.id;
  }
}

/* {at, of, previous, next}: where a message stands among its siblings, and the neighbours' ids or undefined. */
export function siblings(messages, message) {
  const all = childrenOf(messages, message.parent);
  const at = all.findIndex((m) => m.id === message.id);
  return { at: at + 1, of: all.length, previous: all[at - 1]?.id, next: all[at + 1]?.id };
}
