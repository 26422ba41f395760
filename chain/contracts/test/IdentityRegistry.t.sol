// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Check, Vm} from "./support/Check.sol";
import {ContractWallet, MuteWallet, RevertingWallet} from "./support/Wallets.sol";
import {IERC721Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";
import {IdentityRegistry} from "../src/IdentityRegistry.sol";

/// @notice An owner with code that gives its token away while it is being registered.
contract Giver {
    IdentityRegistry private immutable _identity;
    address private immutable _to;

    constructor(IdentityRegistry identity, address to) {
        (_identity, _to) = (identity, to);
    }

    function register() external returns (uint256) {
        return _identity.register("ipfs://gift");
    }

    function onERC721Received(address, address, uint256 id, bytes calldata) external returns (bytes4) {
        _identity.transferFrom(address(this), _to, id);
        return this.onERC721Received.selector;
    }
}

contract IdentityRegistryTest is Check {
    uint256 internal constant OWNER_KEY = 0x0123;
    uint256 internal constant WALLET_KEY = 0x4567;
    uint256 internal constant NOW = 1_800_000_000;

    IdentityRegistry internal identity;
    address internal owner = vm.addr(OWNER_KEY);
    address internal wallet = vm.addr(WALLET_KEY);
    address internal stranger = address(0x57A);

    function setUp() public {
        vm.warp(NOW);
        identity = new IdentityRegistry();
    }

    function registered() internal returns (uint256) {
        vm.prank(owner);
        return identity.register("ipfs://agent");
    }

    function digest(bytes32 structHash) internal view returns (bytes32) {
        return typed("ERC8004IdentityRegistry", block.chainid, address(identity), structHash);
    }

    function walletDigest(uint256 id, address newWallet, address holder, uint256 deadline)
        internal
        view
        returns (bytes32)
    {
        return digest(
            keccak256(
                abi.encode(
                    keccak256("AgentWalletSet(uint256 agentId,address newWallet,address owner,uint256 deadline)"),
                    id,
                    newWallet,
                    holder,
                    deadline
                )
            )
        );
    }

    function consentDigest(address wallet_, address holder, bytes32 nonce, uint256 deadline)
        internal
        view
        returns (bytes32)
    {
        return digest(
            keccak256(
                abi.encode(
                    keccak256("WalletConsent(address wallet,address owner,bytes32 nonce,uint256 deadline)"),
                    wallet_,
                    holder,
                    nonce,
                    deadline
                )
            )
        );
    }

    function registrationDigest(IdentityRegistry.Registration memory r) internal view returns (bytes32) {
        return digest(
            keccak256(
                abi.encode(
                    keccak256(
                        "Registration(address owner,address wallet,string agentURI,bytes32 nonce,uint256 deadline)"
                    ),
                    r.owner,
                    r.wallet,
                    keccak256(bytes(r.agentURI)),
                    r.nonce,
                    r.deadline
                )
            )
        );
    }

    function setWallet(uint256 id, address newWallet, uint256 deadline, bytes memory proof) internal {
        vm.prank(owner);
        identity.setAgentWallet(id, newWallet, deadline, proof);
    }

    function bind(uint256 id) internal {
        setWallet(id, wallet, NOW + 300, signed(WALLET_KEY, walletDigest(id, wallet, owner, NOW + 300)));
    }

    function test_IdsBeginWithOneAndRise() public {
        eq(registered(), 1, "first");
        vm.prank(owner);
        eq(identity.register(), 2, "second");
        vm.prank(stranger);
        eq(identity.register("", new IdentityRegistry.MetadataEntry[](0)), 3, "third");
        eq(identity.ownerOf(3), stranger, "owner");
        eq(identity.getAgentWallet(3), stranger, "the owner is the wallet at first");
        eq(identity.tokenURI(1), "ipfs://agent");
        eq(identity.tokenURI(2), "");
        eq(identity.name(), "AgentIdentity");
        eq(identity.symbol(), "AGENT");
    }

    function test_RegisteringTellsTransferThenRegisteredThenMetadata() public {
        IdentityRegistry.MetadataEntry[] memory metadata = new IdentityRegistry.MetadataEntry[](1);
        metadata[0] = IdentityRegistry.MetadataEntry("skill", "translation");
        vm.expectEmit();
        emit IERC721.Transfer(address(0), owner, 1);
        vm.expectEmit();
        emit IdentityRegistry.Registered(1, "data:,x", owner);
        vm.expectEmit();
        emit IdentityRegistry.MetadataSet(1, "agentWallet", "agentWallet", abi.encodePacked(owner));
        vm.expectEmit();
        emit IdentityRegistry.MetadataSet(1, "skill", "skill", "translation");
        vm.prank(owner);
        identity.register("data:,x", metadata);
        eq(string(identity.getMetadata(1, "skill")), "translation");
    }

    function test_TheWalletCannotBeSetAsMetadata() public {
        IdentityRegistry.MetadataEntry[] memory metadata = new IdentityRegistry.MetadataEntry[](1);
        metadata[0] = IdentityRegistry.MetadataEntry("agentWallet", abi.encodePacked(stranger));
        bytes memory why = abi.encodeWithSelector(IdentityRegistry.ReservedKey.selector, "agentWallet");
        vm.expectRevert(why);
        identity.register("", metadata);
        uint256 id = registered();
        vm.prank(owner);
        vm.expectRevert(why);
        identity.setMetadata(id, "agentWallet", abi.encodePacked(stranger));
    }

    function test_OwnerOperatorAndApprovedChangeUriAndMetadataAndNobodyElse() public {
        uint256 id = registered();
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.NotAuthorized.selector, stranger, id));
        identity.setAgentURI(id, "https://evil.example");
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.NotAuthorized.selector, stranger, id));
        identity.setMetadata(id, "k", "v");
        vm.prank(owner);
        identity.approve(stranger, id);
        vm.expectEmit();
        emit IdentityRegistry.URIUpdated(id, "https://agent.example/file", stranger);
        vm.prank(stranger);
        identity.setAgentURI(id, "https://agent.example/file");
        eq(identity.tokenURI(id), "https://agent.example/file");
        vm.prank(owner);
        identity.approve(address(0), id);
        vm.prank(owner);
        identity.setApprovalForAll(stranger, true);
        yes(identity.isAuthorizedOrOwner(stranger, id), "operator");
        vm.prank(stranger);
        identity.setMetadata(id, "k", "v");
        vm.prank(owner);
        identity.setAgentURI(id, "");
        eq(identity.tokenURI(id), "");
    }

    function test_AnUnknownAgentHasNoOneAndNoWallet() public {
        eq(identity.getAgentWallet(9), address(0), "wallet");
        bytes memory why = abi.encodeWithSelector(IERC721Errors.ERC721NonexistentToken.selector, 9);
        vm.expectRevert(why);
        identity.isAuthorizedOrOwner(owner, 9);
        vm.expectRevert(why);
        identity.setAgentURI(9, "");
    }

    function test_AWalletIsSetByItsOwnProofForFiveMinutesAtMost() public {
        uint256 id = registered();
        bytes memory proof = signed(WALLET_KEY, walletDigest(id, wallet, owner, NOW + 301));
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.ProofTooLong.selector, NOW + 301));
        identity.setAgentWallet(id, wallet, NOW + 301, proof);
        vm.warp(NOW + 301);
        setWallet(id, wallet, NOW + 301, proof);
        eq(identity.getAgentWallet(id), wallet, "wallet");
        vm.warp(NOW + 302);
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.ProofExpired.selector, NOW + 301));
        identity.setAgentWallet(id, wallet, NOW + 301, proof);
    }

    function test_AProofForAnythingElseIsRefused() public {
        uint256 id = registered();
        bytes32[] memory digests = new bytes32[](4);
        digests[0] = walletDigest(id + 1, wallet, owner, NOW + 60);
        digests[1] = walletDigest(id, wallet, stranger, NOW + 60);
        digests[2] = walletDigest(id, wallet, owner, NOW + 61);
        digests[3] = walletDigest(id, stranger, owner, NOW + 60);
        for (uint256 i = 0; i < digests.length; i++) {
            refusesProof(id, signed(WALLET_KEY, digests[i]));
        }
        refusesProof(id, signed(OWNER_KEY, walletDigest(id, wallet, owner, NOW + 60)));
        refusesProof(id, "");
        bytes memory here = signed(WALLET_KEY, walletDigest(id, wallet, owner, NOW + 60));
        vm.chainId(block.chainid + 1);
        refusesProof(id, here);
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.ZeroWallet.selector));
        identity.setAgentWallet(id, address(0), NOW + 60, "");
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.NotAuthorized.selector, stranger, id));
        identity.setAgentWallet(id, wallet, NOW + 60, here);
    }

    function refusesProof(uint256 id, bytes memory proof) private {
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.InvalidWalletProof.selector));
        identity.setAgentWallet(id, wallet, NOW + 60, proof);
    }

    function test_AContractProvesByERC1271AndAKeyWithForeignCodeByItsKey() public {
        uint256 id = registered();
        address smart = address(new ContractWallet(wallet));
        setWallet(id, smart, NOW + 60, signed(WALLET_KEY, walletDigest(id, smart, owner, NOW + 60)));
        eq(identity.getAgentWallet(id), smart, "contract");
        vm.etch(wallet, address(new RevertingWallet()).code);
        bind(id);
        eq(identity.getAgentWallet(id), wallet, "delegated");
    }

    function test_AHighSIsRefused() public {
        uint256 id = registered();
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(WALLET_KEY, walletDigest(id, wallet, owner, NOW + 60));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        refusesProof(id, abi.encodePacked(r, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27)));
    }

    function test_AWalletCanBeUnset() public {
        uint256 id = registered();
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.NotAuthorized.selector, stranger, id));
        identity.unsetAgentWallet(id);
        vm.prank(owner);
        identity.unsetAgentWallet(id);
        eq(identity.getAgentWallet(id), address(0), "wallet");
    }

    function test_ATransferClearsTheWalletAndSaysSoBefore() public {
        uint256 id = registered();
        bind(id);
        vm.expectEmit();
        emit IdentityRegistry.MetadataSet(id, "agentWallet", "agentWallet", "");
        vm.expectEmit();
        emit IERC721.Transfer(owner, stranger, id);
        vm.prank(owner);
        identity.transferFrom(owner, stranger, id);
        eq(identity.getAgentWallet(id), address(0), "wallet");
        eq(identity.tokenURI(id), "ipfs://agent");
    }

    function test_AnOwnerThatGivesTheTokenAwayInTheMidstLeavesNoWalletBehind() public {
        Giver giver = new Giver(identity, stranger);
        uint256 id = giver.register();
        eq(identity.ownerOf(id), stranger, "owner");
        eq(identity.getAgentWallet(id), address(0), "wallet");
    }

    function test_AContractThatTakesNoTokensCannotRegister() public {
        address mute = address(new MuteWallet());
        vm.prank(mute);
        vm.expectRevert(abi.encodeWithSelector(IERC721Errors.ERC721InvalidReceiver.selector, mute));
        identity.register();
    }

    function test_AnOwnerRegistersAndBindsAWalletInOneStep() public {
        bytes memory proof = signed(WALLET_KEY, consentDigest(wallet, owner, "n", NOW + 60));
        vm.prank(owner);
        uint256 id = identity.registerAndBind("ipfs://agent", wallet, "n", NOW + 60, proof);
        eq(identity.ownerOf(id), owner, "owner");
        eq(identity.getAgentWallet(id), wallet, "wallet");
        eq(identity.tokenURI(id), "ipfs://agent");
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.RegistrationReused.selector, owner, bytes32("n")));
        identity.registerAndBind("ipfs://agent", wallet, "n", NOW + 60, proof);
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.InvalidWalletProof.selector));
        identity.registerAndBind("ipfs://thief", wallet, "n", NOW + 60, proof);
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.ZeroWallet.selector));
        identity.registerAndBind("", address(0), "m", NOW + 60, "");
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.ProofExpired.selector, NOW - 1));
        identity.registerAndBind("", wallet, "m", NOW - 1, proof);
    }

    function registration() internal view returns (IdentityRegistry.Registration memory) {
        return IdentityRegistry.Registration(owner, wallet, "ipfs://agent", "n", NOW + 60);
    }

    function test_AnOwnerIsRegisteredByItsSignatureWhoeverSendsIt() public {
        IdentityRegistry.Registration memory r = registration();
        bytes memory grant = signed(OWNER_KEY, registrationDigest(r));
        bytes memory consent = signed(WALLET_KEY, consentDigest(wallet, owner, "n", NOW + 60));
        vm.prank(stranger);
        uint256 id = identity.registerSigned(r, grant, consent);
        eq(identity.ownerOf(id), owner, "owner");
        eq(identity.getAgentWallet(id), wallet, "wallet");
        yes(identity.registrationUsed(owner, "n"), "used");
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.RegistrationReused.selector, owner, bytes32("n")));
        identity.registerSigned(r, grant, consent);
    }

    function test_AGrantToRegisterCannotBeChanged() public {
        IdentityRegistry.Registration memory r = registration();
        bytes memory grant = signed(OWNER_KEY, registrationDigest(r));
        bytes memory consent = signed(WALLET_KEY, consentDigest(wallet, owner, "n", NOW + 60));
        r.agentURI = "ipfs://other";
        refusesGrant(r, grant, consent);
        r = registration();
        r.wallet = stranger;
        refusesGrant(r, grant, consent);
        r = registration();
        r.nonce = "m";
        refusesGrant(r, grant, consent);
        r = registration();
        r.owner = stranger;
        refusesGrant(r, grant, consent);
        r = registration();
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.InvalidWalletProof.selector));
        identity.registerSigned(r, grant, grant);
        vm.warp(NOW + 61);
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.ProofExpired.selector, NOW + 60));
        identity.registerSigned(r, grant, consent);
    }

    function refusesGrant(IdentityRegistry.Registration memory r, bytes memory grant, bytes memory consent) private {
        vm.expectRevert(abi.encodeWithSelector(IdentityRegistry.InvalidOwnerSignature.selector));
        identity.registerSigned(r, grant, consent);
    }

    function test_AnOwnerThatIsItsOwnWalletNeedsOneSignature() public {
        IdentityRegistry.Registration memory r = registration();
        r.wallet = owner;
        uint256 id = identity.registerSigned(r, signed(OWNER_KEY, registrationDigest(r)), "");
        eq(identity.getAgentWallet(id), owner, "wallet");
    }

    function testFuzz_ATokenWithoutItsOwnersWordNeverChangesItsWallet(address caller, address to, bytes calldata proof)
        public
    {
        uint256 id = registered();
        if (caller == owner) return;
        vm.prank(caller);
        (bool ok,) = address(identity).call(abi.encodeCall(IdentityRegistry.setAgentWallet, (id, to, NOW + 60, proof)));
        yes(!ok, "refused");
        eq(identity.getAgentWallet(id), owner, "wallet");
    }
}
