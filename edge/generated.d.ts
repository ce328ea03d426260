// Made by `npm run dashboard`; types are checked without it too.
declare module "*/dashboard.json" {
  const assets: import("./api/dashboard.ts").DashboardAssets;
  export default assets;
}
