/**
 * Options of an `LRUCache` of at most so many entries that takes memory as it fills. `max` makes room for all of them when
 * the cache is made: 10 ms for 100,000 entries, at every start.
 */
export const growingTo = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 })
