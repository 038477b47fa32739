export { addAddresses, type Stocking } from './add-stock.ts'
export type { StockLogins } from './stock-logins.ts'
