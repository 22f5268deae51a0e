// Names of switches on the map.

// As they fit the characters that there is room for: where one does not, without what all share at either end, and cut.
export function fitted(names: readonly string[], rooms: readonly number[]): string[] {
  if (names.every((name, place) => name.length <= rooms[place]!)) return [...names];
  const least = Math.min(...names.map((name) => name.length));
  const shared = (part: (name: string, length: number) => string) => {
    let length = 0;
    while (length < least - 1 && names.every((name) => part(name, length + 1) === part(names[0]!, length + 1))) length += 1;
    return part(names[0]!, length);
  };
  const several = names.length > 1;
  const head = several ? shared((name, length) => name.slice(0, length)).replace(/\d+$/, "").length : 0; // leaf of leaf10 and leaf11
  const tail = several ? (/[-._].*$/.exec(shared((name, length) => name.slice(name.length - length)))?.[0].length ?? 0) : 0;
  return names.map((name, place) => {
    const room = rooms[place]!;
    const own = name.slice(head, Math.max(head + 1, name.length - tail));
    return own.length <= room ? own : `${own.slice(0, Math.max(1, room - 1))}…`;
  });
}
