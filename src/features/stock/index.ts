export type { StockLogins } from './stock-logins.ts'
