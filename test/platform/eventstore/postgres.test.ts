import { runLogContract } from './contract.ts'
import { postgresUnderTest } from './open-postgres.ts'

runLogContract('postgres', postgresUnderTest(), { gapless: true, atomicItems: true })
