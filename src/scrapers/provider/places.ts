/** How many calls may be under way: of one platform, and of all. */
export type PlaceLimits = { readonly perPlatform: number; readonly total: number }

/** Places for calls, so that a slow platform holds up nobody else. */
export type Places = {
  /** False when there is none left; else `leave` is owed. */
  take(platform: string): boolean
  leave(platform: string): void
  taken(): number
}

export const createPlaces = ({ perPlatform, total }: PlaceLimits): Places => {
  const taken = new Map<string, number>()
  let all = 0
  return {
    take: (platform) => {
      const here = taken.get(platform) ?? 0
      if (all >= total || here >= perPlatform) return false
      taken.set(platform, here + 1)
      all += 1
      return true
    },
    leave: (platform) => {
      taken.set(platform, (taken.get(platform) ?? 0) - 1)
      all -= 1
    },
    taken: () => all,
  }
}
