import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Processor time of the parts of a process, microseconds by the part's name, the most first. */
export type Parts = ReadonlyMap<string, number>

type Frame = { readonly functionName: string; readonly url: string }
type ProfileNode = { readonly id: number; readonly callFrame: Frame; readonly children?: readonly number[] }
type Profile = {
  readonly nodes: readonly ProfileNode[]
  readonly startTime: number
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

/** The part of a file of this project. The first match counts. */
const ownParts: readonly (readonly [RegExp, string])[] = [
  [/\/(projections|src\/platform\/projections)\//, 'read models'],
  [/\/src\/audit\/(signatures|seals)\//, 'hashing and signing'],
  [/\/src\/platform\/eventstore\//, 'append'],
  [/\/src\/(domain|features)\/|\/src\/platform\/(commands|vault)\//, 'command'],
  [/\/src\/platform\/http\//, 'HTTP'],
  [/\/src\//, 'other'],
]

/** The part of a frame without a caller in this project. */
const foreignParts: readonly (readonly [RegExp, string])[] = [
  [/\/node_modules\/pg/, 'connections to Postgres'],
  [/node:_http|node:internal\/http|\/node_modules\/(fastify|find-my-way|light-my|zod|@fastify)/, 'HTTP'],
  [/crypto/, 'hashing and signing'],
]

const partOf = (frames: readonly Frame[]): string => {
  if (frames[0]?.functionName === '(garbage collector)') return 'garbage collection'
  if (frames.some(({ url }) => /crypto\/(hash|sig)/.test(url))) return 'hashing and signing'
  for (const parts of [ownParts, foreignParts])
    for (const { url } of frames) for (const [pattern, part] of parts) if (pattern.test(url)) return part
  return 'Node itself'
}

/** Sums the samples of a profile that Node wrote with `--cpu-prof`. */
export const partsOf = (profile: Profile, fromMicros: number, toMicros: number): Parts => {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]))
  const parents = new Map(
    profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])),
  )
  const framesOf = (id: number | undefined): readonly Frame[] => {
    const frames: Frame[] = []
    for (let at = id; at !== undefined; at = parents.get(at)) frames.push(nodes.get(at)!.callFrame)
    return frames
  }
  const partOfNode = new Map(profile.nodes.map(({ id }) => [id, partOf(framesOf(id))]))
  const sums = new Map<string, number>()
  let atMicros = profile.startTime
  for (const [n, sample] of profile.samples.entries()) {
    const micros = profile.timeDeltas[n] ?? 0
    atMicros += micros
    if (atMicros < fromMicros || atMicros > toMicros) continue
    if (nodes.get(sample)?.callFrame.functionName === '(idle)') continue
    const part = partOfNode.get(sample)!
    sums.set(part, (sums.get(part) ?? 0) + micros)
  }
  return new Map([...sums].sort(([, a], [, b]) => b - a))
}

/** Flags of Node for a process whose parts are wanted. It writes its profile at its end. */
export const profileFlags = (directory: string): readonly string[] => [
  '--cpu-prof',
  `--cpu-prof-dir=${directory}`,
  '--cpu-prof-interval=500',
]

export const readProfile = async (directory: string): Promise<Profile> => {
  const [name = ''] = (await readdir(directory)).filter((file) => file.endsWith('.cpuprofile'))
  return JSON.parse(await readFile(join(directory, name), 'utf8'))
}
